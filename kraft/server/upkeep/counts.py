"""Counts of what upkeep has done with the logs since the process began: plain integers, which others read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class UpkeepTask(StrEnum):
    """What is done to all logs, or looked for in all of them, again and again."""

    RETENTION = "retention"
    FLUSH = "flush"
    PRODUCERS = "producer_expiry"
    DISK_SPACE = "disk_space"
    CLEANER = "cleaner"
    SCRUB = "scrub"


@dataclass(slots=True)
class Rounds:
    """How often a task was through with all logs."""

    count: int = 0
    ended_s: float | None = None
    """When it last was, by the loop's clock; None: never."""


class UpkeepCounts:
    __slots__ = (
        "cleaning_s",
        "compaction_bytes_kept",
        "compaction_bytes_read",
        "compactions",
        "retention_bytes",
        "retention_deletions",
        "rounds",
        "scrub_progress",
        "scrubbed_bytes",
        "scrubbed_corrupt",
        "scrubbed_segments",
        "uncleanable",
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
        self.uncleanable = 0
        """Logs that are not compacted any more, because an attempt failed."""
        self.scrubbed_segments = 0
        """Segments that the scrub has read, in all passes."""
        self.scrubbed_bytes = 0
        self.scrubbed_corrupt = 0
        """Logs in which it found corruption."""
        self.scrub_progress: float | None = None
        """Part of the logs that the present pass is through with; 1 after the last one. None: none has begun."""
        self.rounds = {task: Rounds() for task in UpkeepTask}

    def round_ended(self, task: UpkeepTask, now_s: float) -> None:
        rounds = self.rounds[task]
        rounds.count, rounds.ended_s = rounds.count + 1, now_s
