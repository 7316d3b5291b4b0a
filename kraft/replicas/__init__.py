"""Comparison of the replicas of partitions, read from each broker that holds one."""
