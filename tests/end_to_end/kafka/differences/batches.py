"""Record batches for requests, sound ones and others."""

from __future__ import annotations

import struct
import time
from typing import Final
from zlib import crc32

from crc32c import crc32c

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, build_batch
from kraft.log.format.record_codec import Record

NOW_MS: Final = time.time_ns() // 1_000_000
_CRC_ONWARDS: Final = struct.Struct(">hiqqqhii")
_CRC_AT, _CRC_COVERS_FROM = 17, 21
_FIELDS: Final = (
    "attributes",
    "last_offset_delta",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


def batch(
    *values: str,
    key: bytes | None = b"key",
    at_ms: int = NOW_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: Codec = Codec.NONE,
) -> bytes:
    """A record for each value, a millisecond apart. `producer` is id, epoch and sequence of the first record."""
    records = [Record(number, at_ms + number, key, value.encode()) for number, value in enumerate(values)]
    return build_batch(records, codec, *producer)


def changed(sound: bytes, **fields: int) -> bytes:
    """The batch with other fields in its header, and a checksum that fits them."""
    before = dict(zip(_FIELDS, _CRC_ONWARDS.unpack_from(sound, _CRC_COVERS_FROM), strict=True))
    assert fields.keys() <= before.keys(), fields
    covered = _CRC_ONWARDS.pack(*(before | fields).values()) + sound[HEADER_BYTES:]
    return sound[:_CRC_AT] + struct.pack(">I", crc32c(covered)) + covered


def corrupted(sound: bytes) -> bytes:
    """Its last byte is another, and its checksum the same."""
    return sound[:-1] + bytes([sound[-1] ^ 1])


def with_magic(sound: bytes, magic: int) -> bytes:
    return sound[:16] + bytes([magic]) + sound[17:]


def old_message_set(magic: int, value: bytes) -> bytes:
    """One message of format 0 or 1, which brokers of today refuse."""
    timestamp = struct.pack(">q", NOW_MS) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message
