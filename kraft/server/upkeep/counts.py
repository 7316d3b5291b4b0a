"""Counts of what upkeep has done with the logs since the process began: plain integers, which others read."""

from __future__ import annotations


class UpkeepCounts:
    __slots__ = (
        "cleaning_s",
        "compaction_bytes_kept",
        "compaction_bytes_read",
        "compactions",
        "retention_bytes",
        "retention_deletions",
    )

    def __init__(self) -> None:
        self.compactions = 0
        self.cleaning_s = 0.0
        """How long the compactions took, in a thread, with the pauses of the throttle."""
        self.compaction_bytes_read = 0
        self.compaction_bytes_kept = 0
        self.retention_deletions = 0
        """Occasions on which segments of a log were deleted by retention."""
        self.retention_bytes = 0
