"""`kraft perf`: how fast a cluster stores and reads records, and how long one takes from end to end."""
