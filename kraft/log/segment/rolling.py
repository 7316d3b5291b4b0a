"""The decision to roll a log, and the creation of the new segment."""

from __future__ import annotations

from crc32c import crc32c

from kraft.log.disk import Disk
from kraft.log.format.record_batch import BatchHeader
from kraft.log.segment.segment import RELATIVE_OFFSET_MAX, Segment
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset


def must_roll_before(active: Segment, config: TopicConfig, size_bytes: int, last: BatchHeader) -> bool:
    """Return whether the log must roll before batches of `size_bytes`, ending with `last`, are appended."""
    if last.last_offset - active.base_offset > RELATIVE_OFFSET_MAX:
        return True
    present_bytes = active.file.size
    return present_bytes > 0 and (
        present_bytes + size_bytes > config.segment_bytes
        or active.index_bytes >= config.segment_index_bytes
        or is_old(active, config, last.max_timestamp_ms)
    )


def is_old(active: Segment, config: TopicConfig, now_ms: int) -> bool:
    """Return whether the first record of the segment is older than the config allows; never without timestamps.

    Before an append `now_ms` is the largest timestamp of the batch, not the clock, so that all replicas of a partition
    roll at the same offset. Source: Kafka's LogSegment.shouldRoll.
    """
    first_ms = active.first_timestamp_ms
    if first_ms < 0:
        return False
    age_ms, age_ms_max = now_ms - first_ms, config.segment_ms
    if config.compacts:
        # An active segment is never cleaned.
        age_ms_max = min(age_ms_max, config.max_compaction_lag_ms)
    return age_ms > age_ms_max or (
        config.segment_jitter_ms > 0 and age_ms > age_ms_max - _jitter_ms(active, config, age_ms_max)
    )


def _jitter_ms(active: Segment, config: TopicConfig, age_ms_max: int) -> int:
    """Return the jitter of this segment: it differs between segments and is the same after a restart."""
    return crc32c(active.path.encode()) % (min(config.segment_jitter_ms, age_ms_max) + 1)


def begin_segment(disk: Disk, directory: str, base_offset: Offset, config: TopicConfig) -> Segment:
    """Create an empty segment, durably. Leaves none after an OSError."""
    segment = Segment(disk, directory, base_offset, config.index_interval_bytes, create=True)
    try:
        if config.preallocate:
            segment.reserve(config.segment_bytes)
        disk.sync_dir(directory)
    except OSError:
        # The previous segment goes on growing; recovery must not find one that begins in the middle of it.
        segment.file.close()
        disk.remove(segment.path)
        raise
    return segment
