"""Listener for Kafka's protocol: connections, frames and fetch sessions."""
