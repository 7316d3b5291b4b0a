"""Produce and Fetch: converts between Kafka's messages and the values that their handlers take and give."""
