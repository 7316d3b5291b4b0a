"""Which segments of a log may go: by age, by size, and because the log start has passed them.

Source: Kafka's broker, "log.cleanup.policy", "retention.ms", "retention.bytes".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kraft.log.log_config import UNLIMITED, LogConfig
from kraft.log.segment.facts import SegmentFacts
from kraft.model.ids import Offset


def segments_to_drop(
    segments: Sequence[SegmentFacts], config: LogConfig, log_start: Offset, high_watermark: Offset, now_ms: int
) -> int:
    """How many segments go, counted from the front; all of them when the active one, the last, goes too.

    A segment is never dropped unless every record in it is committed, so that the log start cannot pass the high
    watermark; and an active segment without records is left alone. Whatever the policy, a closed segment that lies
    below the log start goes. The rest is the policy's `delete`: first by size, then, of what size leaves, by age.
    """
    droppable = _committed(segments, high_watermark)
    dropped = _below_log_start(segments[:droppable], log_start)
    if config.deletes:
        dropped += _above_size(segments[dropped:], droppable - dropped, config.retention_bytes)
        dropped += _expired(segments[dropped:droppable], config.retention_ms, now_ms)
    return dropped


def _committed(segments: Sequence[SegmentFacts], high_watermark: Offset) -> int:
    """How many from the front hold nothing but committed records."""
    count = len(segments)
    if segments and segments[-1].size_bytes == 0:
        count -= 1
    return next((at for at in range(count) if segments[at].end_offset > high_watermark), count)


def _below_log_start(segments: Sequence[SegmentFacts], log_start: Offset) -> int:
    # The active segment is among these only if all of it is committed, and then goes when it lies below as well: the
    # log rolls first, so it is a closed one by then.
    return next((at for at, segment in enumerate(segments) if segment.end_offset > log_start), len(segments))


def _above_size(segments: Sequence[SegmentFacts], droppable: int, retention_bytes: int) -> int:
    """As many as may go with `retention_bytes` still left: a log is larger than its bound by less than a segment."""
    if retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    for at in range(droppable):
        excess -= segments[at].size_bytes
        if excess < 0:
            return at
    return droppable


def _expired(segments: Sequence[SegmentFacts], retention_ms: int, now_ms: int) -> int:
    """The oldest segments whose newest record is too old; the first that is not keeps all behind it.

    One with a timestamp in the future does not expire before that time, and `retention.ms` later, has come. One whose
    records carry no timestamp has no age of its own. Its records are older than those behind it, as far as the broker
    took them earlier: so it goes together with a later segment that expires, and stays while there is none. Kafka
    takes the time of the file's last change instead, which a copied or restored file does not have.
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
    """Index and age of the segments that have one."""
    for at, segment in enumerate(segments):
        if segment.max_timestamp_ms >= 0:
            yield at, now_ms - segment.max_timestamp_ms
