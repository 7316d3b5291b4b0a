"""Records as they were stored, apart from what they mean: out of batches, with everything that a batch says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kraft.client import InvalidBatch, StoredBatch, TimestampType

BATCH_RECORDS_MAX: Final = 100_000
"""Batches of more records are not shown: their columns alone would take hundreds of MiB."""


class RawRecord(Struct, frozen=True, kw_only=True):
    """One record, or a marker that ends a transaction."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    stamped_by_broker: bool = False
    """Whether the timestamp is of the append, and not of the producer."""

    leader_epoch: int = -1
    """-1: not known."""

    codec: str = "none"
    producer_id: int = -1
    is_transactional: bool = False
    marker: str = ""
    """"commit" or "abort"; "control" for any other record of brokers for themselves."""

    @property
    def next_offset(self) -> int:
        return self.offset + 1

    @property
    def size_bytes(self) -> int:
        """Bytes of key, value and headers, decompressed."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class Unreadable(Struct, frozen=True, kw_only=True):
    """A batch that cannot be shown, and why. Reading goes on after it."""

    topic: str
    partition: int
    offset: int
    next_offset: int
    timestamp_ms: int
    why: str


Item = RawRecord | Unreadable


def items_of(batch: StoredBatch, start: int, end: int, bytes_max: int, *, with_markers: bool) -> Iterator[Item]:
    """Yield what a batch holds from `start` up to `end`, excluded. At most `bytes_max` are decompressed at once."""
    topic, partition = batch.partition.topic, batch.partition.partition
    if batch.is_control and not with_markers:
        return
    try:
        columns = batch.records(bytes_max, BATCH_RECORDS_MAX)
    except InvalidBatch as error:
        if batch.base_offset < end and batch.next_offset > start:
            yield Unreadable(
                topic=topic,
                partition=partition,
                offset=max(start, batch.base_offset),
                next_offset=batch.next_offset,
                timestamp_ms=batch.timestamp_ms,
                why=error.message,
            )
        return
    marker = (batch.marker or "control") if batch.is_control else ""
    for offset, timestamp_ms, key, value, headers in zip(*columns, strict=True):
        if start <= offset < end:
            yield RawRecord(
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp_ms=timestamp_ms,
                key=None if marker else key,
                value=None if marker else value,
                headers=headers,
                stamped_by_broker=batch.timestamp_type is TimestampType.LOG_APPEND_TIME,
                leader_epoch=batch.leader_epoch,
                codec=batch.codec.config_name,
                producer_id=batch.producer_id,
                is_transactional=batch.is_transactional,
                marker=marker,
            )
