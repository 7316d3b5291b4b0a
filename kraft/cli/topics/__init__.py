"""`kraft topics`: topics, their partitions, and the replicas of those."""
