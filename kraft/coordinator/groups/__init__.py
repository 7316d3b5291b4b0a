"""The shard of `__consumer_offsets`: all groups whose ids belong to one partition, with their committed offsets."""
