"""What a topic's configuration says about its logs. Defaults are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, TimestampType

SEGMENT_BYTES_MAX: Final = 0x7FFFFFFF
"""Positions in an index are 31 bits wide in Kafka's format."""

NEVER: Final = 0x7FFFFFFFFFFFFFFF
"""The largest int64, which Kafka's defaults use for "not at all"."""

UNLIMITED: Final = -1
"""For `retention.ms` and `retention.bytes`."""

_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Raises ValueError, naming Kafka's key, for a value that no log can work with."""

    # --- segments --------------------------------------------------------------------------------------------

    segment_bytes: int = 1 << 30
    """`segment.bytes`: a segment that would grow above it is closed and a new one begun."""

    segment_ms: int = 7 * _DAY_MS
    """`segment.ms`: and one whose first record is that old."""

    segment_jitter_ms: int = 0
    """`segment.jitter.ms`: up to so much earlier, so that not all partitions roll at once."""

    segment_index_bytes: int = 10 << 20
    """`segment.index.bytes`: and one whose index is that large."""

    index_interval_bytes: int = 4096
    """`index.interval.bytes`: how far apart, at least, the entries of an index are."""

    preallocate: bool = False
    """`preallocate`: a new segment's space is reserved on the disk at once."""

    # --- what is taken ---------------------------------------------------------------------------------------

    max_message_bytes: int = 1_048_588
    """`max.message.bytes`: the largest batch a producer may send, its header included."""

    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`: whether timestamps are the producer's or the broker's."""

    message_timestamp_before_max_ms: int = NEVER
    """`message.timestamp.before.max.ms`: how far behind the broker's clock a producer's timestamp may be."""

    message_timestamp_after_max_ms: int = 3_600_000
    """`message.timestamp.after.max.ms`: and how far ahead of it."""

    compression: Codec | None = None
    """`compression.type`: batches of other codecs are recompressed by this one; None for `producer`, as they come."""

    compression_level: int | None = None
    """`compression.gzip.level` and so on, of that codec; None for its default."""

    # --- durability ------------------------------------------------------------------------------------------

    flush_messages: int = NEVER
    """`flush.messages`: with the page cache as durability, a sync is asked for after so many records."""

    flush_ms: int = NEVER
    """`flush.ms`: and when a record has waited for so long."""

    # --- retention -------------------------------------------------------------------------------------------

    deletes: bool = True
    """`cleanup.policy` names `delete`: old segments go by age and size."""

    retention_ms: int = 7 * _DAY_MS
    """`retention.ms`: a segment goes when its newest record is older; UNLIMITED keeps it."""

    retention_bytes: int = UNLIMITED
    """`retention.bytes`: the oldest segments go while the log would still hold that much; UNLIMITED keeps them."""

    file_delete_delay_ms: int = 60_000
    """`file.delete.delay.ms`: how long the files of a segment outlive it."""

    # --- compaction ------------------------------------------------------------------------------------------

    compacts: bool = False
    """`cleanup.policy` names `compact`: of each key the newest record stays."""

    min_cleanable_dirty_ratio: float = 0.5
    """`min.cleanable.dirty.ratio`: a log is cleaned when that part of it was not cleaned yet."""

    min_compaction_lag_ms: int = 0
    """`min.compaction.lag.ms`: a record stays at least that long."""

    max_compaction_lag_ms: int = NEVER
    """`max.compaction.lag.ms`: a log is cleaned, however little of it is dirty, when a record has waited that long."""

    delete_retention_ms: int = _DAY_MS
    """`delete.retention.ms`: a tombstone stays that long after the cleaning that first met it."""

    @property
    def takes_records_unseen(self) -> bool:
        """True when the headers of batches whose timestamps are not too late say all that matters."""
        return not self.compacts and self.compression is None and self.message_timestamp_before_max_ms == NEVER

    @property
    def looks_into_records(self) -> bool:
        """True when a batch's header does not tell whether its records may be appended."""
        return self.compacts or (
            self.message_timestamp_before_max_ms != NEVER and self.message_timestamp_type is TimestampType.CREATE_TIME
        )

    def __post_init__(self) -> None:
        _check("segment.bytes", self.segment_bytes, HEADER_BYTES, SEGMENT_BYTES_MAX)
        _check("segment.ms", self.segment_ms, 1, NEVER)
        _check("segment.jitter.ms", self.segment_jitter_ms, 0, NEVER)
        _check("segment.index.bytes", self.segment_index_bytes, 12, SEGMENT_BYTES_MAX)
        _check("index.interval.bytes", self.index_interval_bytes, 0, SEGMENT_BYTES_MAX)
        _check("max.message.bytes", self.max_message_bytes, 0, SEGMENT_BYTES_MAX)
        _check("message.timestamp.before.max.ms", self.message_timestamp_before_max_ms, 0, NEVER)
        _check("message.timestamp.after.max.ms", self.message_timestamp_after_max_ms, 0, NEVER)
        _check("flush.messages", self.flush_messages, 1, NEVER)
        _check("flush.ms", self.flush_ms, 0, NEVER)
        _check("retention.ms", self.retention_ms, UNLIMITED, NEVER)
        _check("retention.bytes", self.retention_bytes, UNLIMITED, NEVER)
        _check("file.delete.delay.ms", self.file_delete_delay_ms, 0, NEVER)
        _check("min.cleanable.dirty.ratio", self.min_cleanable_dirty_ratio, 0, 1)
        _check("min.compaction.lag.ms", self.min_compaction_lag_ms, 0, NEVER)
        _check("max.compaction.lag.ms", self.max_compaction_lag_ms, 1, NEVER)
        _check("delete.retention.ms", self.delete_retention_ms, 0, NEVER)
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ValueError(
                f"min.compaction.lag.ms is {self.min_compaction_lag_ms}, "
                f"above max.compaction.lag.ms, which is {self.max_compaction_lag_ms}"
            )


def _check(key: str, value: float, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key} is {value}, it must be between {least} and {most}")
