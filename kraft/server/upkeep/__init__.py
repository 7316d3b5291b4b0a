"""Background maintenance of logs in use: retention, compaction, scrub, and free space on the disks."""
