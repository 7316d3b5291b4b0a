"""Cleanup of logs: retention deletes whole segments, compaction removes single records."""
