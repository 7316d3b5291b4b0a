"""The file `<offset>.snapshot`: the state of a partition's producers up to that offset.

The file begins like Kafka's version 1 - version, CRC-32C of the rest, an array with each producer's last batch - so
that Kafka's tools can read it. Kafka's file ends there; Kraft's also has the older ones of the last five batches,
because a retry may be of any of them. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from crc32c import crc32c

from kraft.log.change import Change
from kraft.log.disk import Disk
from kraft.log.recovery.producer_state import BATCHES_REMEMBERED, ProducerState, WrittenBatch
from kraft.model.errors import Corruption
from kraft.model.ids import Offset

SNAPSHOT_SUFFIX: Final = ".snapshot"

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
"""Producer id and epoch, last sequence, last offset, last offset delta of the batch, timestamp; then, for transactions,
coordinator epoch and first offset of the open transaction, -1 for none."""

_OWN_MARK: Final = b"KRAFT\x01"
_OWN_ENTRY: Final = struct.Struct(">qqb")
"""Last offset of the last batch or marker, its timestamp, number of batches."""
_OWN_BATCH: Final = struct.Struct(">iiqqq")


def encode_snapshot(states: Mapping[int, ProducerState]) -> bytes:
    pieces = [_COUNT.pack(len(states))]
    pieces += [_kafka_entry(producer_id, state) for producer_id, state in states.items()]
    pieces.append(_OWN_MARK)
    for state in states.values():
        pieces.append(_OWN_ENTRY.pack(state.last_offset, state.timestamp_ms, len(state.batches)))
        pieces += [
            _OWN_BATCH.pack(
                batch.first_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.timestamp_ms
            )
            for batch in state.batches
        ]
    content = b"".join(pieces)
    return _HEAD.pack(_VERSION, crc32c(content)) + content


def _kafka_entry(producer_id: int, state: ProducerState) -> bytes:
    start = -1 if state.transaction_start is None else state.transaction_start
    transaction = (state.timestamp_ms, state.coordinator_epoch, start)
    if not state.batches:
        return _ENTRY.pack(producer_id, state.epoch, -1, -1, 0, *transaction)
    last = state.batches[-1]
    span = last.last_offset - last.base_offset
    return _ENTRY.pack(producer_id, state.epoch, last.last_sequence, last.last_offset, span, *transaction)


def decode_snapshot(data: bytes, path: str) -> dict[int, ProducerState]:
    """Return the state by producer id, from a file of Kraft or Kafka. Raises Corruption."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise Corruption(path, 0, f"{len(data)} bytes are too few for a producer snapshot")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise Corruption(path, 0, f"producer snapshots of version {version} are not supported")
    if crc32c(memoryview(data)[_HEAD.size :]) != checksum:
        raise Corruption(path, 0, "the checksum of the producer snapshot is wrong")
    try:
        return _decode_content(data)
    except (struct.error, ValueError) as error:
        raise Corruption(path, 0, f"not a producer snapshot: {error}") from None


def _decode_content(data: bytes) -> dict[int, ProducerState]:
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _COUNT.size
    end = begin + count * _ENTRY.size
    if count < 0 or end > len(data):
        raise ValueError(f"{count} producers do not fit into {len(data)} bytes")
    states = dict(_kafka_state(entry) for entry in _ENTRY.iter_unpack(data[begin:end]))
    if len(states) != count:
        raise ValueError("a producer id occurs twice")
    if end == len(data):
        return states
    if data[end : end + len(_OWN_MARK)] != _OWN_MARK:
        raise ValueError(f"the data from byte {end} on is unknown")
    position = end + len(_OWN_MARK)
    for producer_id, state in states.items():
        last_offset, timestamp_ms, batches = _OWN_ENTRY.unpack_from(data, position)
        if not 0 <= batches <= BATCHES_REMEMBERED:
            raise ValueError(f"a producer has {batches} batches, expected 0 to {BATCHES_REMEMBERED}")
        position += _OWN_ENTRY.size
        written = tuple(_written(data, position + number * _OWN_BATCH.size) for number in range(batches))
        position += batches * _OWN_BATCH.size
        states[producer_id] = state._replace(
            batches=written, last_offset=Offset(last_offset), timestamp_ms=timestamp_ms
        )
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes follow the last producer")
    return states


def _written(data: bytes, position: int) -> WrittenBatch:
    first_sequence, last_sequence, base_offset, last_offset, timestamp_ms = _OWN_BATCH.unpack_from(data, position)
    return WrittenBatch(
        first_sequence=first_sequence,
        last_sequence=last_sequence,
        base_offset=Offset(base_offset),
        last_offset=Offset(last_offset),
        timestamp_ms=timestamp_ms,
    )


def _kafka_state(entry: tuple[int, ...]) -> tuple[int, ProducerState]:
    producer_id, epoch, last_sequence, last_offset, span, timestamp_ms, coordinator_epoch, transaction_start = entry
    last = WrittenBatch(
        first_sequence=(last_sequence - span) & 0x7FFFFFFF,
        last_sequence=last_sequence,
        base_offset=Offset(last_offset - span),
        last_offset=Offset(last_offset),
        timestamp_ms=timestamp_ms,
    )
    return producer_id, ProducerState(
        epoch=epoch,
        batches=(last,) if last_offset >= 0 else (),
        last_offset=Offset(last_offset),
        timestamp_ms=timestamp_ms,
        coordinator_epoch=coordinator_epoch,
        transaction_start=Offset(transaction_start) if transaction_start >= 0 else None,
    )


class ProducerSnapshots:
    """The snapshots in a log's directory, by offset. An unreadable one is ignored and removed."""

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self._directory = directory
        self._offsets = sorted(offsets)

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def write(self, offset: Offset, states: Mapping[int, ProducerState]) -> Change[None]:
        """Write the state of the producers below `offset`, durably."""
        path, written = self._path(offset), dict(states)
        yield lambda: self._disk.write_atomically(path, encode_snapshot(written))
        if offset not in self._offsets:
            insort(self._offsets, offset)

    def latest(self, least: Offset, most: Offset) -> tuple[Offset, dict[int, ProducerState]] | None:
        """Return offset and states of the last readable snapshot within these bounds; None if there is none."""
        for offset in reversed(self._offsets[: bisect_right(self._offsets, most)]):
            if offset < least:
                break
            try:
                path = self._path(offset)
                return Offset(offset), decode_snapshot(self._disk.read_file(path), path)
            except Corruption:
                self._remove(offset)
        return None

    def remove_above(self, offset: Offset) -> Change[None]:
        """Remove the snapshots above `offset`, where the log now ends: their records are gone."""
        for later in self._offsets[bisect_right(self._offsets, offset) :]:
            yield partial(self._disk.remove, self._path(later))
            self._offsets.remove(later)

    def keep_only(self, offsets: Iterable[int]) -> Change[None]:
        """Remove the snapshots of all other offsets."""
        kept = frozenset(offsets)
        stale = [offset for offset in self._offsets if offset not in kept]
        if stale:
            self._offsets = [offset for offset in self._offsets if offset in kept]
            yield partial(self._remove_files, [self._path(offset) for offset in stale])

    def _remove_files(self, paths: list[str]) -> None:
        for path in paths:
            self._disk.remove(path)

    def moved_to(self, directory: str) -> None:
        """Note that the directory was renamed to this."""
        self._directory = directory

    def _remove(self, offset: int) -> None:
        self._offsets.remove(offset)
        self._disk.remove(self._path(offset))

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
