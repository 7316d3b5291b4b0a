"""What a topic's configuration says about its logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.log.record_batch import HEADER_BYTES, TimestampType

SEGMENT_BYTES_MAX: Final = 0x7FFFFFFF
"""Positions in an index are 31 bits wide in Kafka's format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Raises ValueError, naming Kafka's key, for a value that no log can work with."""

    segment_bytes: int = 1 << 30
    """`segment.bytes`: a segment that would grow above it is closed and a new one begun."""

    index_interval_bytes: int = 4096
    """`index.interval.bytes`: how far apart, at least, the entries of an index are."""

    max_message_bytes: int = 1_048_588
    """`max.message.bytes`: the largest batch a producer may send, its header included."""

    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`: whether timestamps are the producer's or the broker's."""

    def __post_init__(self) -> None:
        _check("segment.bytes", self.segment_bytes, HEADER_BYTES, SEGMENT_BYTES_MAX)
        _check("index.interval.bytes", self.index_interval_bytes, 0, SEGMENT_BYTES_MAX)
        _check("max.message.bytes", self.max_message_bytes, 0, SEGMENT_BYTES_MAX)


def _check(key: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{key} is {value}, it must be between {least} and {most}")
