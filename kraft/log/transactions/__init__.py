"""Transactions in the log of one partition: which are open, which were aborted, and which may begin."""
