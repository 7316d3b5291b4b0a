"""Batches as an idempotent producer sends them, made fast enough not to be what is measured."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import count, cycle
from random import Random
from typing import Final

from crc32c import crc32c

from kraft.log.format.record_batch import HEADER_BYTES, build_batch, read_header
from kraft.log.format.record_codec import Record

RECORD_BYTES: Final = 1_000
PRODUCER_ID: Final = 1
BASE_TIMESTAMP_MS: Final = 1_700_000_000_000
_DISTINCT_BYTES: Final = 4 << 20
"""Number of different batches, so that they do not all stay in a core's own cache."""

_CRC_AT: Final = 17
_CRC_COVERS_FROM: Final = 21
_TIMESTAMPS_AT: Final = 27
_SEQUENCE_AT: Final = 53
_STAMP_END: Final = 57
_TIMESTAMPS: Final = struct.Struct(">qq")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")

Stamped = tuple[bytearray, bytes]
"""A buffer that many batches share, and the header bytes that make it one of them; `stamp` puts them in."""


def stamp(stamped: Stamped) -> bytearray:
    """The batch itself, until the next one is stamped into the same buffer."""
    buffer, header = stamped
    buffer[_CRC_AT:_STAMP_END] = header
    return buffer


def batches(size_bytes: int, timestamp_step_ms: int = 1, record_bytes: int = RECORD_BYTES) -> Iterator[Stamped]:
    """Without end: batches of about `size_bytes`, never more, whose sequences and timestamps go on.

    All records of batch number n have the timestamp BASE_TIMESTAMP_MS + n * `timestamp_step_ms`.
    """
    chance = Random(size_bytes)
    distinct = max(2, _DISTINCT_BYTES // size_bytes)
    buffers = [bytearray(_batch(chance, size_bytes, record_bytes)) for _ in range(min(distinct, 256))]
    records = read_header(buffers[0]).record_count
    for number, buffer in zip(count(), cycle(buffers), strict=False):
        timestamp_ms = BASE_TIMESTAMP_MS + number * timestamp_step_ms
        _TIMESTAMPS.pack_into(buffer, _TIMESTAMPS_AT, timestamp_ms, timestamp_ms)
        _INT32.pack_into(buffer, _SEQUENCE_AT, (number * records) & 0x7FFFFFFF)
        _UINT32.pack_into(buffer, _CRC_AT, crc32c(memoryview(buffer)[_CRC_COVERS_FROM:]))
        yield buffer, bytes(buffer[_CRC_AT:_STAMP_END])


def _batch(chance: Random, size_bytes: int, record_bytes: int) -> bytes:
    """Return a batch of as many records as fit, at least one."""
    overhead_bytes = 16
    records = max(1, (size_bytes - HEADER_BYTES) // (record_bytes + overhead_bytes))
    value_bytes = min(record_bytes, size_bytes - HEADER_BYTES - overhead_bytes)
    content = [Record(offset, 0, None, chance.randbytes(value_bytes)) for offset in range(records)]
    return build_batch(content, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0)
