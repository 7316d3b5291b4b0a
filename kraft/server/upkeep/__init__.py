"""What is done to logs while others use them: retention, compaction, scrub, and room on the disks."""
