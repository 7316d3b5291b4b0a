"""Listener for Kafka's protocol: connections, frames, and one file per API."""
