"""The HTTP paths of Burrow, by which monitoring reads the lag of groups."""
