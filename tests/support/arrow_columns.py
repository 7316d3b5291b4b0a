"""Columns in Arrow's format: read back as lists, and made from records."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from kraft.client import ArrowChunk, ColumnBuffers, TimestampType, TopicPartition, WantedColumns
from kraft.log.format.arrow_columns import ArrowColumns
from kraft.log.format.record_codec import Record, encode_records


class Lists(NamedTuple):
    """The same columns as lists; None for a column that was not wanted."""

    offsets: list[int] | None
    timestamps_us: list[int | None] | None
    keys: list[bytes | None] | None
    values: list[bytes | None] | None
    headers: list[list[tuple[str, bytes | None]] | None] | None


def lists_of(columns: ColumnBuffers) -> Lists:
    """Read the columns as Arrow's specification says, without Arrow."""
    count = columns.record_count
    timestamps = _numbers("q", columns.timestamps_us, count)
    if timestamps is not None:
        bits = _bits(columns.timestamp_validity, columns.timestamp_null_count, count)
        timestamps = [each if valid else None for each, valid in zip(timestamps, bits, strict=True)]
    return Lists(
        offsets=_numbers("q", columns.offsets, count),
        timestamps_us=timestamps,
        keys=_viewed(columns.keys, count, columns.data),
        values=_viewed(columns.values, count, columns.data),
        headers=_headers(columns),
    )


def offsets_of(chunk: ArrowChunk) -> list[int]:
    offsets = lists_of(chunk.columns).offsets
    assert offsets is not None
    return offsets


def chunk_of(
    partition: TopicPartition,
    records: Sequence[Record],
    wanted: WantedColumns | None = None,
    timestamp_type: int = TimestampType.CREATE_TIME,
) -> ArrowChunk:
    """Return the records, whose offsets are consecutive, as one chunk."""
    payload = encode_records(list(records), records[0].timestamp_ms)
    collected = ArrowColumns(wanted or WantedColumns(), len(records) + 1, 1 << 30)
    first, last = records[0].offset, records[-1].offset
    collected.begin(len(records), len(payload), first, last, records[0].timestamp_ms, None, first, last + 1)
    assert collected.take(payload, 0, len(payload)) == len(payload)
    return ArrowChunk(
        partition=partition,
        timestamp_type=TimestampType(timestamp_type),
        columns=collected.finish(),
        next_offset=last + 1,
    )


def _numbers(kind: str, packed: bytes | None, count: int) -> list[Any] | None:
    return None if packed is None else list(struct.unpack(f"<{count}{kind}", packed))


def _bits(packed: bytes, null_count: int, count: int) -> list[bool]:
    found = [bool(packed[at >> 3] >> (at & 7) & 1) for at in range(count)] if packed else [True] * count
    assert found.count(False) == null_count
    return found


def _viewed(views: Any, count: int, data: list[bytes]) -> list[bytes | None] | None:
    if views is None:
        return None
    assert len(views.views) == 16 * count
    found: list[bytes | None] = []
    for at, is_valid in enumerate(_bits(views.validity, views.null_count, count)):
        view = views.views[16 * at : 16 * at + 16]
        (length,) = struct.unpack_from("<i", view)
        if length <= 12:
            assert not any(view[4 + length :]), "the rest of a short view is zero"
            value = view[4 : 4 + length]
        else:
            prefix, buffer, position = struct.unpack_from("<4sii", view, 4)
            value = data[buffer][position : position + length]
            assert len(value) == length
            assert value.startswith(prefix)
        found.append(value if is_valid else None)
    return found


def _headers(columns: ColumnBuffers) -> list[list[tuple[str, bytes | None]] | None] | None:
    headers = columns.headers
    if headers is None:
        return None
    names = _viewed(headers.names, headers.header_count, columns.data) or []
    values = _viewed(headers.values, headers.header_count, columns.data) or []
    ends = _numbers("i", headers.ends, columns.record_count + 1) or []
    pairs = [((name or b"").decode(), value) for name, value in zip(names, values, strict=True)]
    bits = _bits(headers.validity, headers.null_count, columns.record_count)
    return [pairs[ends[at] : ends[at + 1]] if is_valid else None for at, is_valid in enumerate(bits)]
