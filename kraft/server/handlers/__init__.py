"""One file for each API: what a broker answers, whichever listener asked."""
