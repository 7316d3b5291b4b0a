"""Server-side assignors of the consumer group protocol (KIP-848): which member gets which partitions."""
