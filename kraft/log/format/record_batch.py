"""A record batch of Kafka's format v2: what a producer builds, the wire carries, the disk holds and a consumer reads.

| byte | field | | byte | field | | byte | field |
|---|---|---|---|---|---|---|---|
| 0 | base offset, int64 | | 17 | CRC-32C of all that follows, uint32 | | 43 | producer id, int64 |
| 8 | batch length from byte 12, int32 | | 21 | attributes, int16 | | 51 | producer epoch, int16 |
| 12 | leader epoch, int32 | | 23 | last offset delta, int32 | | 53 | base sequence, int32 |
| 16 | magic 2, int8 | | 27, 35 | base and max timestamp, int64 | | 57 | record count, int32; records from 61 |

Base offset and leader epoch lie outside the CRC, so a broker sets them without touching the rest.
Source: the class comment of Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from kraft.log.format.compression import DECOMPRESSED_BYTES_MAX, Codec, compress, decompress, decompressed_bytes_max
from kraft.log.format.record_codec import (
    Record,
    RecordColumns,
    decode_columns,
    encode_columns,
    encode_records,
)
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
MAGIC: Final = 2
SEQUENCE_MAX: Final = 0x7FFFFFFF
OFFSET_MAX: Final = 0x7FFFFFFFFFFFFFFF

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_FRAME: Final = struct.Struct(">qiibIhi")
_CRC_ONWARDS: Final = struct.Struct(">hiqqqhii")
_LENGTH_STARTS_AT: Final = 12
_MAGIC_AT: Final = 16
_OLD_MAGICS: Final = (0, 1)
_CRC_STARTS_AT: Final = 17
_CRC_COVERS_FROM: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")

_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
_NOT_PLAIN: Final = _LOG_APPEND_TIME_BIT | _TRANSACTIONAL_BIT | _CONTROL_BIT
DELETE_HORIZON_BIT: Final = 0x40
"""The base timestamp is the time from which on compaction drops the tombstones of the batch (KIP-534)."""


class TimestampType(IntEnum):
    """Who set the timestamps of a batch; `message.timestamp.type` of a topic."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch. A tuple rather than a dataclass: one is made for every batch that passes by."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def placed(self, base_offset: int, leader_epoch: int, append_time_ms: int | None) -> BatchHeader:
        """As the log stores it; its checksum stays the producer's."""
        max_timestamp_ms = self.max_timestamp_ms if append_time_ms is None else append_time_ms
        return BatchHeader(base_offset, self.batch_length, leader_epoch, *self[3:8], max_timestamp_ms, *self[9:])

    @property
    def size_bytes(self) -> int:
        """Of the whole batch, header included."""
        return self.batch_length + _LENGTH_STARTS_AT

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & _CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        is_append_time = self.attributes & _LOG_APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    @property
    def is_plain(self) -> bool:
        """True for CreateTime, no transaction, no marker: what nearly every producer sends."""
        return not self.attributes & _NOT_PLAIN

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on compaction may drop the tombstones of the batch; None for one that has none yet (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer(self) -> bool:
        """True for a batch of an idempotent producer, whose sequence numbers count."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Of the last record; sequences wrap to 0 behind 2^31 - 1."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


# --- reading -------------------------------------------------------------------------------------------------


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, its fields checked against each other; the batch itself may reach beyond the buffer.

    Raises InvalidBatch.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise _too_short(memoryview(buffer)[position:])
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise _not_our_format(header.magic)
    if header.batch_length < HEADER_BYTES - _LENGTH_STARTS_AT:
        raise InvalidBatch(f"a batch claims a length of {header.batch_length} bytes")
    if header.attributes & _CODEC_MASK > Codec.ZSTD:
        raise InvalidBatch("a batch names an unknown compression codec", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    # At most one record for each offset: compaction leaves fewer, even none, but a batch always has an offset.
    if (
        not 0 <= header.last_offset_delta <= OFFSET_MAX - header.base_offset
        or not 0 <= header.record_count <= header.last_offset_delta + 1
        or header.base_offset < 0
    ):
        raise InvalidBatch(
            f"a batch claims {header.record_count} records within {header.last_offset_delta + 1} offsets "
            f"from {header.base_offset}",
            ErrorCode.INVALID_RECORD,
        )
    return header


def _too_short(data: memoryview) -> InvalidBatch:
    # Messages of the formats before this one may be shorter than a header of it.
    if len(data) > _MAGIC_AT and data[_MAGIC_AT] in _OLD_MAGICS:
        return _not_our_format(data[_MAGIC_AT])
    return InvalidBatch(f"{len(data)} bytes are too few for the header of a batch")


def _not_our_format(magic: int) -> InvalidBatch:
    return InvalidBatch(
        f"record batches of format {magic} are not supported, only those of format {MAGIC}",
        ErrorCode.INVALID_RECORD if magic in _OLD_MAGICS else ErrorCode.CORRUPT_MESSAGE,
    )


def read_frame(buffer: Buffer, position: int) -> tuple[int, int, int, int, int]:
    """Base offset, size in bytes, leader epoch, checksum, last offset of the batch at `position`.

    What a reader needs that trusts a checksum more than single fields, for a third of what `read_header` costs. Raises
    InvalidBatch for what cannot be a batch; at least the bytes of a header are there.
    """
    base_offset, length, leader_epoch, magic, crc, _, last_offset_delta = _FRAME.unpack_from(buffer, position)
    if magic != MAGIC or length < HEADER_BYTES - _LENGTH_STARTS_AT:
        raise InvalidBatch(f"a batch of format {magic} claims a length of {length} bytes")
    return base_offset, length + _LENGTH_STARTS_AT, leader_epoch, crc, base_offset + last_offset_delta


def check_frame(batch: memoryview, crc: int) -> None:
    """`check_crc` for what `read_frame` gave."""
    computed = crc32c(batch[_CRC_COVERS_FROM:])
    if computed != crc:
        raise InvalidBatch(f"the checksum of a batch is {computed:#010x}, its header says {crc:#010x}")


def split(buffer: Buffer, batches_max: int | None = None) -> list[tuple[BatchHeader, memoryview]]:
    """The batches that stand back to back in the buffer, not copied; checksums are not checked.

    Raises InvalidBatch, also for more than `batches_max`.
    """
    view = memoryview(buffer)
    batches: list[tuple[BatchHeader, memoryview]] = []
    position = 0
    while position < len(view):
        header = read_header(view, position)
        end = position + header.size_bytes
        if end > len(view):
            raise InvalidBatch(f"a batch of {header.size_bytes} bytes ends after {len(view) - position}")
        if len(batches) == batches_max:
            raise InvalidBatch(f"these are more than {batches_max} batches", ErrorCode.INVALID_RECORD)
        batches.append((header, view[position:end]))
        position = end
    return batches


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Raises InvalidBatch when the bytes are not those that were checksummed."""
    check_frame(memoryview(batch), header.crc)


def validate(buffer: Buffer) -> BatchHeader:
    """The header of the one batch that the buffer holds, checksum checked. Raises InvalidBatch."""
    header = read_header(buffer)
    if header.size_bytes != len(buffer):
        raise InvalidBatch(f"a batch of {header.size_bytes} bytes stands in {len(buffer)} bytes")
    check_crc(header, buffer)
    return header


def decode_batch(batch: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """The records of one batch, control records included; the checksum is not checked. Raises InvalidBatch."""
    return decode_batch_columns(batch, bytes_max).to_records()


def decode_batch_columns(batch: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> RecordColumns:
    """The same, column by column."""
    header = read_header(batch)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], bytes_max)
    columns = decode_columns(payload, header.record_count, header.base_offset, header.base_timestamp_ms)
    if columns.offsets and columns.offsets[-1] > header.last_offset:
        raise InvalidBatch(f"a batch that ends at offset {header.last_offset} holds offset {columns.offsets[-1]}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # The broker rewrote the header alone; the records inside still carry what the producer said.
        return columns._replace(timestamps_ms=[header.max_timestamp_ms] * header.record_count)
    return columns


def iter_records(buffer: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of all batches in the buffer as a consumer sees them: checksums checked, control records left out.

    Each batch is unpacked when its first record is asked for. Raises InvalidBatch.
    """
    for header, batch in split(buffer):
        check_crc(header, batch)
        if not header.is_control:
            yield from decode_batch(batch, bytes_max)


# --- writing -------------------------------------------------------------------------------------------------


def build_batch(
    records: list[Record],
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch of at least one record, numbered from `base_offset` in the order of the list.

    Raises InvalidBatch for timestamps that do not fit.
    """
    assert records, "a batch holds at least one record"
    base_timestamp_ms = records[0].timestamp_ms
    codec, payload = _packed(codec, encode_records(records, base_timestamp_ms))
    return _assemble(
        payload=payload,
        attributes=codec | (_TRANSACTIONAL_BIT if transactional else 0) | (_CONTROL_BIT if control else 0),
        record_count=len(records),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer=(producer_id, producer_epoch, base_sequence),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def rebuild_batch(header: BatchHeader, records: RecordColumns, delete_horizon_ms: int | None = None) -> bytes:
    """The batch of that header with only these of its records left, as compaction does: what else it said, it says.

    First and last offset and sequence stay, so a producer's numbers can be read off even without any record. A delete
    horizon takes the place of the base timestamp, and the records' own timestamps come out as they were: they must lie
    within 2^63 ms of it. Source: KIP-534.
    """
    base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if not records.offsets:
        base_timestamp_ms, attributes = -1, attributes & ~_CODEC_MASK
    elif delete_horizon_ms is not None:
        base_timestamp_ms, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    # The append time stands in the header alone, and is what every record says; a delta to it might not even fit.
    relative_to_ms = header.max_timestamp_ms if is_append_time else base_timestamp_ms
    codec, payload = _packed(Codec(attributes & _CODEC_MASK), encode_columns(records, base_offset, relative_to_ms))
    keeps_max = is_append_time or not records.offsets
    return _assemble(
        payload=payload,
        attributes=attributes & ~_CODEC_MASK | codec,
        record_count=len(records.offsets),
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms if keeps_max else max(records.timestamps_ms),
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=base_offset,
        leader_epoch=header.leader_epoch,
    )


def recompressed(
    header: BatchHeader, payload: bytes, codec: Codec, level: int | None, max_timestamp_ms: int
) -> tuple[BatchHeader, bytes]:
    """The batch of that header with its records, the uncompressed `payload`, packed by another codec.

    All else stays as it is, but the largest timestamp is what the records say, not what the producer said of them.
    """
    codec, packed = _packed(codec, payload, level)
    batch = _assemble(
        payload=packed,
        attributes=header.attributes & ~_CODEC_MASK | codec,
        record_count=header.record_count,
        last_offset_delta=header.last_offset_delta,
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
    )
    return read_header(batch), batch


def _packed(codec: Codec, payload: bytes, level: int | None = None) -> tuple[Codec, bytes]:
    """Compressed, and by which codec: by none where readers would take the result for a bomb."""
    packed = compress(codec, payload, level)
    return (codec, packed) if len(payload) <= decompressed_bytes_max(len(packed)) else (Codec.NONE, payload)


def _assemble(
    *,
    payload: bytes,
    attributes: int,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer: tuple[int, int, int],
    base_offset: int,
    leader_epoch: int,
    last_offset_delta: int | None = None,
) -> bytes:
    if last_offset_delta is None:
        last_offset_delta = record_count - 1
    try:
        checksummed = _CRC_ONWARDS.pack(
            attributes, last_offset_delta, base_timestamp_ms, max_timestamp_ms, *producer, record_count
        )
    except struct.error as error:
        raise InvalidBatch(f"a field of a batch is out of range: {error}", ErrorCode.INVALID_RECORD) from None
    crc = crc32c(payload, crc32c(checksummed))
    length = HEADER_BYTES - _LENGTH_STARTS_AT + len(payload)
    return b"".join((struct.pack(">qiibI", base_offset, length, leader_epoch, MAGIC, crc), checksummed, payload))


def assign_offsets(
    buffer: bytearray | memoryview, position: int, base_offset: Offset, leader_epoch: LeaderEpoch
) -> None:
    """Gives the batch at `position` its place in the log, in place: both fields lie outside the checksum."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _LENGTH_STARTS_AT, leader_epoch)


def placed(
    batch: memoryview, base_offset: Offset, leader_epoch: LeaderEpoch, append_time_ms: int | None
) -> tuple[bytearray, memoryview]:
    """The batch as the log stores it, in two pieces: a header of its own, and the records where they are.

    A large batch is so written without being copied. `append_time_ms` becomes the timestamp of every record.
    """
    header, payload = bytearray(batch[:HEADER_BYTES]), batch[HEADER_BYTES:]
    assign_offsets(header, 0, base_offset, leader_epoch)
    if append_time_ms is not None:
        (attributes,) = _ATTRIBUTES.unpack_from(header, _CRC_COVERS_FROM)
        _ATTRIBUTES.pack_into(header, _CRC_COVERS_FROM, attributes | _LOG_APPEND_TIME_BIT)
        _TIMESTAMP.pack_into(header, _MAX_TIMESTAMP_AT, append_time_ms)
        _CRC.pack_into(header, _CRC_STARTS_AT, crc32c(payload, crc32c(header[_CRC_COVERS_FROM:])))
    return header, payload
