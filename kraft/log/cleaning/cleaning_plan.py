"""When a log is to be compacted, and how much of it: by how much of it is dirty, and by how long records have waited.

A log is cleaned from its start up to some offset again and again; what was cleaned before is its clean part, what
follows the dirty one. The rules are those of Kafka's LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kraft.log.log_config import LogConfig
from kraft.log.segment.facts import SegmentFacts
from kraft.model.ids import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPlan:
    """What a cleaning may touch: `segments` from the first of the log on, none of which grows any more."""

    segments: tuple[SegmentFacts, ...]
    dirty_offset: Offset
    """Where the dirty part begins."""

    end_offset: Offset
    """Of the last segment; nothing at or above is touched."""

    clean_bytes: int
    dirty_bytes: int
    """Of the segments that end in the clean part, and of the others."""

    is_forced: bool
    """`max.compaction.lag.ms` is over for some record, so it does not matter how much is dirty."""

    @property
    def dirty_ratio(self) -> float:
        """Between 0 and 1; a caller with several logs to clean begins with the largest."""
        return self.dirty_bytes / max(1, self.dirty_bytes + self.clean_bytes)


def plan_cleaning(
    segments: Sequence[SegmentFacts], config: LogConfig, cleaned_end: Offset, upper: Offset, now_ms: int
) -> CleaningPlan | None:
    """What is to be cleaned now, None for nothing. `segments` are all of the log, the active one last.

    `cleaned_end` is how far the last cleaning came, and `upper` the high watermark: what may still be truncated must
    not outdate anything.
    """
    if not config.compacts or len(segments) < 2:
        return None
    log_begin, log_end = segments[0].base_offset, segments[-1].end_offset
    dirty_offset = cleaned_end if log_begin <= cleaned_end <= log_end else log_begin
    cleanable = _cleanable(segments, config, dirty_offset, upper, now_ms)
    dirty_bytes = sum(segment.size_bytes for segment in cleanable if segment.end_offset > dirty_offset)
    if dirty_bytes == 0:
        return None
    plan = CleaningPlan(
        segments=cleanable,
        dirty_offset=dirty_offset,
        end_offset=cleanable[-1].end_offset,
        clean_bytes=sum(segment.size_bytes for segment in cleanable) - dirty_bytes,
        dirty_bytes=dirty_bytes,
        is_forced=any(
            _waits_too_long(segment, config, now_ms) for segment in segments[:-1] if segment.end_offset > dirty_offset
        ),
    )
    return plan if plan.is_forced or plan.dirty_ratio > config.min_cleanable_dirty_ratio else None


def _waits_too_long(segment: SegmentFacts, config: LogConfig, now_ms: int) -> bool:
    # A producer that sends no timestamps sends 0 or less, which says nothing of how long a record has waited.
    return 0 < segment.first_timestamp_ms < now_ms - config.max_compaction_lag_ms


def _cleanable(
    segments: Sequence[SegmentFacts], config: LogConfig, dirty_offset: Offset, upper: Offset, now_ms: int
) -> tuple[SegmentFacts, ...]:
    found: list[SegmentFacts] = []
    for segment in segments[:-1]:
        is_dirty = segment.end_offset > dirty_offset
        is_young = segment.max_timestamp_ms > now_ms - config.min_compaction_lag_ms
        if segment.end_offset > upper or (is_dirty and is_young and config.min_compaction_lag_ms > 0):
            break
        found.append(segment)
    return tuple(found)
