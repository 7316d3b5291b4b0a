"""Retention: which segments of a log are deleted, by age, by size, and below the log start offset.

Source: Kafka's broker, "log.cleanup.policy", "retention.ms", "retention.bytes".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.log.segment.segment_facts import SegmentFacts
from kraft.log.topic_config import UNLIMITED, TopicConfig
from kraft.model.ids import Offset


def segments_to_drop(
    segments: Sequence[SegmentFacts], config: TopicConfig, log_start: Offset, high_watermark: Offset, now_ms: int
) -> int:
    """Return how many segments to delete, from the front; the last one counted may be the active one.

    A segment is deleted only if every record in it is committed, so that the log start cannot pass the high watermark;
    an active segment without records is kept. A segment below the log start is deleted whatever the policy. The rest
    is for the policy `delete`: first by size, then, of what is left, by age.
    """
    droppable = _committed(segments, high_watermark)
    dropped = _below_log_start(segments[:droppable], log_start)
    if config.deletes:
        dropped += _above_size(segments[dropped:], droppable - dropped, config.retention_bytes)
        dropped += _expired(segments[dropped:droppable], config.retention_ms, now_ms)
    return dropped


def _committed(segments: Sequence[SegmentFacts], high_watermark: Offset) -> int:
    """Return how many segments from the front hold only committed records."""
    count = len(segments)
    if segments and segments[-1].size_bytes == 0:
        count -= 1
    return next((at for at in range(count) if segments[at].end_offset > high_watermark), count)


def _below_log_start(segments: Sequence[SegmentFacts], log_start: Offset) -> int:
    # The active segment is among these only if all of it is committed. If it lies below too, the log rolls first, so it
    # is no longer active when it is deleted.
    return next((at for at, segment in enumerate(segments) if segment.end_offset > log_start), len(segments))


def _above_size(segments: Sequence[SegmentFacts], droppable: int, retention_bytes: int) -> int:
    """Return how many segments to delete such that at least `retention_bytes` remain."""
    if retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    for at in range(droppable):
        excess -= segments[at].size_bytes
        if excess < 0:
            return at
    return droppable


def _expired(segments: Sequence[SegmentFacts], retention_ms: int, now_ms: int) -> int:
    """Return how many of the oldest segments have expired: even their newest record is older than `retention_ms`.

    A segment with a timestamp in the future expires `retention.ms` after that time. A segment whose records have no
    timestamp has no age. The broker received its records before those of later segments: so it is deleted together
    with a later segment that expires, and kept while there is none. Kafka uses the file's modification time instead,
    which a copied or restored file does not keep.
    """
    if retention_ms == UNLIMITED:
        return 0
    expired = 0
    for at, age_ms in _ages(segments, now_ms):
        if age_ms <= retention_ms:
            break
        expired = at + 1
    return expired


def _ages(segments: Sequence[SegmentFacts], now_ms: int) -> Iterator[tuple[int, int]]:
    """Yield index and age of the segments that have an age."""
    for at, segment in enumerate(segments):
        if segment.max_timestamp_ms >= 0:
            yield at, now_ms - segment.max_timestamp_ms
