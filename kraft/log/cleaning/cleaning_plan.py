"""The decision whether to compact a log, and which part: by how much of it is dirty, and how long records have waited.

Each cleaning covers a log from its start up to some offset; the part that was cleaned before is the clean part, the
rest the dirty part. The rules are those of Kafka's LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset


class CleaningPlan(Struct, frozen=True, kw_only=True):
    """Extent of one cleaning: `segments` from the first of the log on, none of them active."""

    segments: tuple[SegmentFacts, ...]
    dirty_offset: Offset
    """First offset of the dirty part."""

    end_offset: Offset
    """End of the last segment; nothing at or above it is touched."""

    clean_bytes: int
    dirty_bytes: int
    """Size of the segments that end in the clean part, and of the others."""

    is_forced: bool
    """`max.compaction.lag.ms` has passed for some record, so the dirty ratio does not matter."""

    @property
    def dirty_ratio(self) -> float:
        """Dirty part of the log, 0 to 1; with several logs to clean, the largest ratio goes first."""
        return self.dirty_bytes / max(1, self.dirty_bytes + self.clean_bytes)


def plan_cleaning(
    segments: Sequence[SegmentFacts], config: TopicConfig, cleaned_end: Offset, upper: Offset, now_ms: int
) -> CleaningPlan | None:
    """Return what to clean now, or None. `segments` are all segments of the log, the active one last.

    `cleaned_end` is the end of the last cleaning, `upper` the last stable offset: a record that may still be truncated
    or aborted must not replace an older one.
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


def _waits_too_long(segment: SegmentFacts, config: TopicConfig, now_ms: int) -> bool:
    # A producer without timestamps sends 0 or less, which does not say how long a record has waited.
    return 0 < segment.first_timestamp_ms < now_ms - config.max_compaction_lag_ms


def _cleanable(
    segments: Sequence[SegmentFacts], config: TopicConfig, dirty_offset: Offset, upper: Offset, now_ms: int
) -> tuple[SegmentFacts, ...]:
    found: list[SegmentFacts] = []
    for segment in segments[:-1]:
        is_dirty = segment.end_offset > dirty_offset
        is_young = segment.max_timestamp_ms > now_ms - config.min_compaction_lag_ms
        if segment.end_offset > upper or (is_dirty and is_young and config.min_compaction_lag_ms > 0):
            break
        found.append(segment)
    return tuple(found)
