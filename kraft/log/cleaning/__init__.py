"""What leaves a log: whole segments by retention, single records by compaction."""
