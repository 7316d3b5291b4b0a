"""Time, randomness, disk and memory of the process; a simulation can replace clock, randomness and disk."""
