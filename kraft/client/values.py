"""What users of the client get back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kraft.log.format.record_batch import TimestampType
from kraft.log.format.record_codec import Header, RecordColumns
from kraft.model.ids import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record was stored. The offset is -1 with acks=0, and for a duplicate that the broker no longer places."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """One record, a tuple rather than a dataclass because they are made by the million."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a point in time."""

    offset: int
    timestamp_ms: int


class FoundOffset(NamedTuple):
    """`record_epoch` is that of the record there, `leader_epoch` the one in which its leader answered."""

    offset: int
    timestamp_ms: int
    record_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """All records of one `produce_many` are stored; `end_offsets` are those behind the last one of each partition."""

    records: int
    end_offsets: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumns:
    """Records of one partition as columns: lists of equal length, in the order of their offsets."""

    partition: TopicPartition
    timestamp_type: TimestampType
    columns: RecordColumns
    next_offset: int
    """Where to read on. Offsets may be missing in between, so it is not the last offset here plus one by necessity."""
