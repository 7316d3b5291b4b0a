"""What the client decides without network, clock or chance: batching, fetch positions, partitions, pauses."""
