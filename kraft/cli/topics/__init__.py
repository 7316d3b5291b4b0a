"""`kraft topics`: topics, their partitions, and on which brokers those are."""
