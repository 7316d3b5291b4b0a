"""Values that the client takes from its users, and returns to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from kraft.log.format.record_batch import TimestampType
from kraft.log.format.record_codec import Header, RecordColumns
from kraft.model.ids import TopicPartition


class RecordMetadata(NamedTuple):
    """Position of a stored record.

    The offset is -1 with acks=0, and for a duplicate whose offset the broker no longer has.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ConsumerRecord(NamedTuple):
    """One record. A tuple and not a dataclass, because programs read millions of them."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp of the first record at or after a given time."""

    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next one to read, and any text of the program that committed it.

    `leader_epoch` is the leader epoch of the last record before the offset; -1 if it is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class NewTopic(Struct, frozen=True, kw_only=True):
    """Topic to create. A partition count or replication factor of -1 is the cluster's default.

    `assignments` are the brokers of each partition, preferred leader first; the two numbers must be -1 then.
    """

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()


class GroupMetadata(Struct, frozen=True, kw_only=True):
    """Identity of a group's member, by which the coordinator checks the offsets of a transaction.

    `Consumer.group_metadata` returns it. For a consumer that was assigned its partitions with `assign`, the id is empty
    and the generation -1.
    """

    group_id: str
    member_id: str = ""
    generation: int = -1
    """Generation of a classic member, or epoch of a member of the consumer protocol."""

    instance_id: str | None = None


class FoundOffset(NamedTuple):
    """Result of an offset look-up.

    `record_epoch` is the leader epoch of the record at the offset, `leader_epoch` the one in which the leader answered.
    """

    offset: int
    timestamp_ms: int
    record_epoch: int
    leader_epoch: int


class ColumnsToSend(Struct, frozen=True, kw_only=True):
    """Records for one topic as columns of equal length, for `Producer.send_columns`."""

    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    headers: list[tuple[Header, ...]] | None = None
    partitions: Sequence[int | None] | int | None = None
    """A record with a partition goes there; others go where `send` sends them."""

    timestamp_ms: int | None = None
    """Timestamp of all records; None for the present time."""


class Delivery(Struct, frozen=True, kw_only=True):
    """Result of one `produce_many` whose records are all stored.

    `end_offsets` holds, for each partition, the offset after its last record of the call.
    """

    records: int
    end_offsets: dict[TopicPartition, int]


class Delay(Struct, frozen=True, kw_only=True):
    """Delay of records that a producer could not store at once.

    `reason` is the last retriable error, or what the producer waits for. `waited_ms` is the time since the oldest of
    the records was sent; while no attempt has failed, the time without a response.
    """

    partition: TopicPartition
    reason: str
    waited_ms: int


class PartitionColumns(Struct, frozen=True, kw_only=True):
    """Records of one partition as columns: lists of equal length, ordered by offset."""

    partition: TopicPartition
    timestamp_type: TimestampType
    columns: RecordColumns
    next_offset: int
    """The offset to continue from. It can be more than the last offset here plus one, because offsets may have gaps."""
