"""Moves of partitions: plans, their throttles and their progress, for whoever has a client of the cluster."""
