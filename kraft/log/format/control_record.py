"""The record of a control batch: the marker that ends a transaction, by commit or abort.

The key is a version (int16) and a type (int16), the value a version (int16) and the epoch of the transaction
coordinator that wrote it (int32). Bytes after these belong to later versions and are skipped. Source: Kafka's
ControlRecordType and EndTransactionMarker.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from msgspec import Struct

from kraft.log.format.record_batch import BatchHeader, Buffer, build_batch, decode_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import InvalidBatch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class MarkerType(IntEnum):
    """Outcome of a transaction. Kafka uses further numbers for records of its metadata log."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(Struct, frozen=True, kw_only=True):
    """The only record of a control batch; the batch's header has the producer id."""

    type: MarkerType
    coordinator_epoch: int


Markers = Mapping[int, EndTransactionMarker]
"""Markers by the base offsets of their batches."""

NO_MARKERS: Final[Markers] = {}


def decode_marker(record: Record) -> EndTransactionMarker | None:
    """Return the marker; None for a control record of another type, as in a metadata log. Raises InvalidBatch."""
    key_version, number = _unpacked(_KEY, record.key, "key")
    if key_version < 0:
        raise InvalidBatch(f"the key of a control record has version {key_version}")
    if number > MarkerType.COMMIT or number < MarkerType.ABORT:
        return None
    value_version, coordinator_epoch = _unpacked(_VALUE, record.value, "value")
    if value_version < 0:
        raise InvalidBatch(f"the value of a control record has version {value_version}")
    return EndTransactionMarker(type=MarkerType(number), coordinator_epoch=coordinator_epoch)


def encode_marker(marker: EndTransactionMarker, timestamp_ms: int) -> Record:
    """Return the record for a batch to be built with `control=True` and the producer's id and epoch."""
    return Record(0, timestamp_ms, _KEY.pack(_VERSION, marker.type), _VALUE.pack(_VERSION, marker.coordinator_epoch))


def build_marker(marker: EndTransactionMarker, producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytes:
    """Build the control batch that ends a producer's transaction."""
    return build_batch(
        [encode_marker(marker, timestamp_ms)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def marker_in(header: BatchHeader, batch: Buffer) -> EndTransactionMarker | None:
    """Return the marker that a batch holds; None for any other batch, and for a marker that compaction has emptied."""
    if not header.is_control or not header.record_count:
        return None
    try:
        return decode_marker(decode_batch(batch)[0])
    except InvalidBatch:
        # The checksum is right, so it was written so: it ends no transaction.
        return None


def markers_in(batches: Sequence[tuple[BatchHeader, Buffer]]) -> Markers:
    """Return the markers that these batches hold."""
    found = {header.base_offset: marker_in(header, batch) for header, batch in batches if header.is_control}
    return {offset: marker for offset, marker in found.items() if marker is not None} if found else NO_MARKERS


def has_abort(markers: Markers) -> bool:
    """Return whether one of the markers aborts a transaction."""
    return any(marker.type is MarkerType.ABORT for marker in markers.values())


def _unpacked(layout: struct.Struct, field: bytes | None, name: str) -> tuple[int, int]:
    if field is None or len(field) < layout.size:
        size = "null" if field is None else f"{len(field)} bytes"
        raise InvalidBatch(f"the {name} of a control record is {size}, not {layout.size} bytes")
    first, second = layout.unpack_from(field)
    return first, second
