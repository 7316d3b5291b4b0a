"""The partition log: record batches in Kafka's format v2, and the segments that hold them. Callers pass in the disk."""
