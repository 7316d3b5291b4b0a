"""Decisions of the client, without network, clock or randomness: batches, fetch positions, partitions, backoff."""
