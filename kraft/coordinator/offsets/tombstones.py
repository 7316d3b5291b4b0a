"""Tombstones of committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_record_codec import encode
from kraft.coordinator.group_records import OffsetCommitKey

TOMBSTONES_BYTES_MAX: Final = 256 * 1024
"""Below this, tombstones surely fit into one batch of `__consumer_offsets` with the default `max.message.bytes`."""

_RECORD_BYTES: Final = 64
"""More than a tombstone takes beside its names."""


class Tombstones(Struct, frozen=True, kw_only=True):
    """Tombstones of offsets of one group, as many as fit into one batch."""

    group: str
    records: tuple[GroupRecord, ...]
    size: int
    """Bytes that the records take in a batch, at most."""

    more: bool
    """There are more to delete. The caller appends these, and decides again on the state after them."""


def tombstone(group: str, topic: str, partition: int) -> GroupRecord:
    """Return the record that deletes the group's offset of the partition."""
    return GroupRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def tombstone_bytes(record: GroupRecord) -> int:
    """Return the bytes that a tombstone takes in a batch, at most."""
    key, _ = encode(record)
    return _RECORD_BYTES + len(key)


def tombstones_that_fit(group: str, partitions: Iterable[tuple[str, int]]) -> Tombstones:
    """Return tombstones of the first partitions, at least of one, and look at no further ones than needed."""
    records: list[GroupRecord] = []
    group_bytes, size = len(group.encode()), 0
    for topic, partition in partitions:
        record_bytes = group_bytes + len(topic.encode()) + _RECORD_BYTES
        if records and size + record_bytes > TOMBSTONES_BYTES_MAX:
            return Tombstones(group=group, records=tuple(records), size=size, more=True)
        size += record_bytes
        records.append(tombstone(group, topic, partition))
    return Tombstones(group=group, records=tuple(records), size=size, more=False)
