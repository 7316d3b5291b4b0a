"""Measuring clients on a cluster: how fast records are stored and read, and how long one takes from end to end."""
