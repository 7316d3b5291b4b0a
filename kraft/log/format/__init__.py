"""Record batches in Kafka's format v2, and the records in them."""
