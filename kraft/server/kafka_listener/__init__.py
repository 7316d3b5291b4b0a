"""The listener that speaks Kafka's own protocol: connections, the frames on them, and one file for each API."""
