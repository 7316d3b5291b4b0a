"""One file per API or family: the handlers that every listener of a broker calls."""
