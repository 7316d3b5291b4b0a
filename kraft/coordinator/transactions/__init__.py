"""The shard of `__transaction_state`: all transactional ids that belong to one partition, with their transactions."""
