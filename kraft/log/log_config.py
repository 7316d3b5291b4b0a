"""Configuration of a topic's logs. Defaults are Kafka's."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, TimestampType

SEGMENT_BYTES_MAX: Final = 0x7FFFFFFF
"""Positions in an index are 31 bits wide in Kafka's format."""

NEVER: Final = 0x7FFFFFFFFFFFFFFF
"""The largest int64, which Kafka's defaults use for "never"."""

UNLIMITED: Final = -1
"""No limit, in `retention.ms` and `retention.bytes`."""

_DAY_MS: Final = 86_400_000


class LogConfig(Struct, frozen=True, kw_only=True):
    """Configs of one log. Raises ValueError, which names Kafka's key, for an invalid value."""

    # --- segments --------------------------------------------------------------------------------------------

    segment_bytes: int = 1 << 30
    """`segment.bytes`: the log rolls before a segment grows above this size."""

    segment_ms: int = 7 * _DAY_MS
    """`segment.ms`: the log rolls when the first record of the segment is this old."""

    segment_jitter_ms: int = 0
    """`segment.jitter.ms`: the log rolls up to this much earlier, so that not all partitions roll at once."""

    segment_index_bytes: int = 10 << 20
    """`segment.index.bytes`: the log rolls when an index of the segment is this large."""

    index_interval_bytes: int = 4096
    """`index.interval.bytes`: minimum distance between two entries of an index."""

    preallocate: bool = False
    """`preallocate`: disk space for a new segment is reserved at once."""

    # --- admission -------------------------------------------------------------------------------------------

    max_message_bytes: int = 1_048_588
    """`max.message.bytes`: the largest batch that a producer may send, header included."""

    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`: who sets timestamps, the producer or the broker."""

    message_timestamp_before_max_ms: int = NEVER
    """`message.timestamp.before.max.ms`: how far a producer's timestamp may be behind the broker's clock."""

    message_timestamp_after_max_ms: int = 3_600_000
    """`message.timestamp.after.max.ms`: how far a producer's timestamp may be ahead of the broker's clock."""

    compression: Codec | None = None
    """`compression.type`: batches are recompressed with this codec; None for `producer`, which keeps the producer's."""

    compression_level: int | None = None
    """`compression.gzip.level` and so on, for that codec; None for its default."""

    # --- durability ------------------------------------------------------------------------------------------

    flush_messages: int = NEVER
    """`flush.messages`: if records are acknowledged from the page cache, a sync is due after this many records."""

    flush_ms: int = NEVER
    """`flush.ms`: likewise, a sync is due when a record has waited this long."""

    # --- retention -------------------------------------------------------------------------------------------

    deletes: bool = True
    """`cleanup.policy` includes `delete`: old segments are deleted by age and size."""

    retention_ms: int = 7 * _DAY_MS
    """`retention.ms`: a segment is deleted when its newest record is older than this; UNLIMITED keeps it."""

    retention_bytes: int = UNLIMITED
    """`retention.bytes`: the oldest segments are deleted while the others hold at least this; UNLIMITED keeps them."""

    file_delete_delay_ms: int = 60_000
    """`file.delete.delay.ms`: time between the deletion of a segment and the removal of its files."""

    # --- compaction ------------------------------------------------------------------------------------------

    compacts: bool = False
    """`cleanup.policy` includes `compact`: the newest record of each key is kept."""

    min_cleanable_dirty_ratio: float = 0.5
    """`min.cleanable.dirty.ratio`: a log is cleaned when more than this share of it is dirty (not cleaned yet)."""

    min_compaction_lag_ms: int = 0
    """`min.compaction.lag.ms`: a record is kept at least this long."""

    max_compaction_lag_ms: int = NEVER
    """`max.compaction.lag.ms`: a log is cleaned, even if little of it is dirty, when a record has waited this long."""

    delete_retention_ms: int = _DAY_MS
    """`delete.retention.ms`: a tombstone is kept this long after the first cleaning that reads it."""

    @property
    def accepts_headers_alone(self) -> bool:
        """True if batches can be appended by their headers alone, as long as their timestamps are not too late."""
        return not self.compacts and self.compression is None and self.message_timestamp_before_max_ms == NEVER

    @property
    def must_check_records(self) -> bool:
        """True if each record has to be checked before its batch is appended."""
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
