"""Reading of large ranges: record batches straight from a broker's listener of Kafka's protocol, decoded to columns."""
