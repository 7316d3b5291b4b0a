"""A record batch in Kafka's format v2, the same in a producer, on the wire, on disk and in a consumer.

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
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43

_PLACE: Final = struct.Struct(">qii")
"""Base offset, batch length and leader epoch, at the beginning of a batch."""

_CODEC_MASK: Final = 0x07
_CODEC_MAX: Final = int(Codec.ZSTD)
_LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
NOT_PLAIN: Final = _LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
"""None of these is set for CreateTime, no transaction, no marker, as nearly all producers send."""

DELETE_HORIZON_BIT: Final = 0x40
"""Attribute bit: the base timestamp is the time from which compaction drops the batch's tombstones (KIP-534)."""


class TimestampType(IntEnum):
    """Origin of a batch's timestamps, producer or broker; a value of `message.timestamp.type`."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch. A tuple, because that is what `struct` unpacks, once for each batch."""

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

    def with_assigned_offsets(self, base_offset: int, leader_epoch: int, append_time_ms: int | None) -> BatchHeader:
        """Return the header as the log stores it, except for the checksum, which stays the producer's."""
        if append_time_ms is None:
            return _new_tuple(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))
        return BatchHeader(base_offset, self.batch_length, leader_epoch, *self[3:8], append_time_ms, *self[9:])

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
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
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may drop the batch's tombstones; None if not set yet (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer(self) -> bool:
        """True for a batch of an idempotent producer, whose sequence is checked."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2^31 - 1."""
        return -1 if self.base_sequence < 0 else (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


_new_tuple: Final = tuple.__new__
"""Makes a header of as many values as it has fields, without the check of their number."""


# --- reading -------------------------------------------------------------------------------------------------


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`, its fields checked; the batch itself may reach beyond the buffer.

    Raises InvalidBatch.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise _too_short(memoryview(buffer)[position:])
    header = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    base_offset, length, _, magic, _, attributes, last_offset_delta, _, _, _, _, _, record_count = header
    if magic != MAGIC:
        raise _not_our_format(magic)
    if length < HEADER_BYTES - _LENGTH_STARTS_AT:
        raise InvalidBatch(f"a batch claims a length of {length} bytes")
    if attributes & _CODEC_MASK > _CODEC_MAX:
        raise InvalidBatch("a batch names an unknown compression codec", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    # At most one record per offset: compaction leaves fewer, even none, but a batch always has an offset.
    if (
        not 0 <= last_offset_delta <= OFFSET_MAX - base_offset
        or not 0 <= record_count <= last_offset_delta + 1
        or base_offset < 0
    ):
        raise InvalidBatch(
            f"a batch claims {record_count} records within {last_offset_delta + 1} offsets from {base_offset}",
            ErrorCode.INVALID_RECORD,
        )
    return header


def _too_short(data: memoryview) -> InvalidBatch:
    # Messages of older formats may be shorter than this format's header.
    if len(data) > _MAGIC_AT and data[_MAGIC_AT] in _OLD_MAGICS:
        return _not_our_format(data[_MAGIC_AT])
    return InvalidBatch(f"{len(data)} bytes are too few for the header of a batch")


def _not_our_format(magic: int) -> InvalidBatch:
    return InvalidBatch(
        f"record batches of format {magic} are not supported, only those of format {MAGIC}",
        ErrorCode.INVALID_RECORD if magic in _OLD_MAGICS else ErrorCode.CORRUPT_MESSAGE,
    )


def read_frame(buffer: Buffer, position: int) -> tuple[int, int, int, int, int]:
    """Return base offset, size in bytes, leader epoch, checksum and last offset of the batch at `position`.

    Enough for a reader that checks the checksum instead of single fields, at a third of the cost of `read_header`.
    Raises InvalidBatch for what cannot be a batch. The buffer must hold a whole header.
    """
    base_offset, length, leader_epoch, magic, crc, _, last_offset_delta = _FRAME.unpack_from(buffer, position)
    if magic != MAGIC or length < HEADER_BYTES - _LENGTH_STARTS_AT:
        raise InvalidBatch(f"a batch of format {magic} claims a length of {length} bytes")
    return base_offset, length + _LENGTH_STARTS_AT, leader_epoch, crc, base_offset + last_offset_delta


def check_frame(batch: memoryview, crc: int) -> None:
    """Check the checksum that `read_frame` returned. Raises InvalidBatch."""
    computed = crc32c(batch[_CRC_COVERS_FROM:])
    if computed != crc:
        raise InvalidBatch(f"the checksum of a batch is {computed:#010x}, its header says {crc:#010x}")


def whole_batches(records: bytes) -> bytes:
    """Return the records without a last batch that is cut off, as Apache Kafka sends it at a limit of bytes."""
    position = 0
    while len(records) - position >= HEADER_BYTES:
        try:
            size_bytes = read_header(records, position).size_bytes
        except InvalidBatch:
            # Told by those who split them.
            return records
        if position + size_bytes > len(records):
            break
        position += size_bytes
    return records if position == len(records) else records[:position]


def split(buffer: Buffer, batches_max: int | None = None) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches in the buffer, which stand back to back; no copies, checksums are not checked.

    Raises InvalidBatch, also for more than `batches_max`.
    """
    view = memoryview(buffer)
    size = len(view)
    batches: list[tuple[BatchHeader, memoryview]] = []
    position = 0
    while position < size:
        header = read_header(view, position)
        end = position + header.batch_length + _LENGTH_STARTS_AT
        if end > size:
            raise InvalidBatch(f"a batch of {end - position} bytes is cut off after {size - position}")
        if len(batches) == batches_max:
            raise InvalidBatch(f"more than {batches_max} batches", ErrorCode.INVALID_RECORD)
        batches.append((header, view[position:end]))
        position = end
    return batches


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Check the batch's checksum. Raises InvalidBatch."""
    check_frame(memoryview(batch), header.crc)


def validate(buffer: Buffer) -> BatchHeader:
    """Return the header of the only batch in the buffer, checksum checked. Raises InvalidBatch."""
    header = read_header(buffer)
    if header.size_bytes != len(buffer):
        raise InvalidBatch(f"{len(buffer)} bytes for a batch of {header.size_bytes} bytes")
    check_crc(header, buffer)
    return header


def decode_batch(batch: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Return the records of one batch, control records included; the checksum is not checked. Raises InvalidBatch."""
    return decode_batch_columns(batch, bytes_max).to_records()


def decode_batch_columns(batch: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> RecordColumns:
    """Return the same records as columns."""
    header = read_header(batch)
    payload = decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], bytes_max)
    columns = decode_columns(payload, header.record_count, header.base_offset, header.base_timestamp_ms)
    if columns.offsets and columns.offsets[-1] > header.last_offset:
        raise InvalidBatch(f"a batch that ends at offset {header.last_offset} holds offset {columns.offsets[-1]}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # The broker changed only the header; the records inside still have the producer's timestamps.
        return columns._replace(timestamps_ms=[header.max_timestamp_ms] * header.record_count)
    return columns


def iter_records(buffer: Buffer, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of all batches in the buffer as a consumer sees them: checksums checked, no control records.

    Each batch is decompressed when its first record is requested. Raises InvalidBatch.
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
    """Build one batch of at least one record, with offsets from `base_offset` in the order of the list.

    Raises InvalidBatch for timestamps that do not fit.
    """
    assert records, "a batch holds at least one record"
    base_timestamp_ms = records[0].timestamp_ms
    codec, payload = _packed(codec, encode_records(records, base_timestamp_ms))
    return _assemble(
        payload=payload,
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0),
        record_count=len(records),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer=(producer_id, producer_epoch, base_sequence),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )


def build_column_batch(
    columns: RecordColumns,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Build a producer's batch of at least one record. The offsets are 0, 1 and so on.

    Raises InvalidBatch for timestamps that do not fit.
    """
    assert columns.offsets, "a batch holds at least one record"
    base_timestamp_ms = columns.timestamps_ms[0]
    codec, payload = _packed(codec, encode_columns(columns, 0, base_timestamp_ms))
    return _assemble(
        payload=payload,
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
        record_count=len(columns.offsets),
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(columns.timestamps_ms),
        producer=(producer_id, producer_epoch, base_sequence),
        base_offset=0,
        leader_epoch=-1,
    )


def rebuild_batch(header: BatchHeader, records: RecordColumns, delete_horizon_ms: int | None = None) -> bytes:
    """Rebuild a batch with only these of its records, as compaction does; everything else in its header stays.

    First and last offset and sequence stay, so that they are known even without any record. A delete horizon replaces
    the base timestamp, and the records keep their timestamps, which must lie within 2^63 ms of it. Source: KIP-534.
    """
    base_offset, base_timestamp_ms = header.base_offset, header.base_timestamp_ms
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if not records.offsets:
        base_timestamp_ms, attributes = -1, attributes & ~_CODEC_MASK
    elif delete_horizon_ms is not None:
        base_timestamp_ms, attributes = delete_horizon_ms, attributes | DELETE_HORIZON_BIT
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    # The append time is only in the header and applies to every record; a delta to the horizon might not even fit.
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
    """Return a batch with the same records, the uncompressed `payload`, compressed by another codec.

    Everything else stays, except that the largest timestamp is that of the records, not the one in the old header.
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
    """Return codec and compressed payload; uncompressed if readers would refuse the result as a decompression bomb."""
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


def with_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool = False
) -> bytes:
    """Return the batch as this producer sends it: the same records, still compressed, with offsets from 0 on.

    It must be `is_copyable`; its checksum is replaced, so check it before.
    """
    copied = bytearray(batch)
    assign_offsets(copied, 0, Offset(0), LeaderEpoch(-1))
    (attributes,) = _ATTRIBUTES.unpack_from(copied, _CRC_COVERS_FROM)
    attributes = attributes & ~TRANSACTIONAL_BIT | (TRANSACTIONAL_BIT if transactional else 0)
    _ATTRIBUTES.pack_into(copied, _CRC_COVERS_FROM, attributes)
    _PRODUCER.pack_into(copied, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(copied, _CRC_STARTS_AT, crc32c(memoryview(copied)[_CRC_COVERS_FROM:]))
    return bytes(copied)


def is_copyable(header: BatchHeader) -> bool:
    """Return whether a producer may send the batch as it is stored.

    Brokers take no markers, no gaps that a compaction left, and no timestamps that another broker set.
    """
    is_whole = header.record_count == header.last_offset_delta + 1
    return is_whole and not header.attributes & (_LOG_APPEND_TIME_BIT | CONTROL_BIT | DELETE_HORIZON_BIT)


def assign_offsets(
    buffer: bytearray | memoryview, position: int, base_offset: Offset, leader_epoch: LeaderEpoch
) -> None:
    """Set base offset and leader epoch of the batch at `position`, in place: the checksum does not cover them."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _LENGTH_STARTS_AT, leader_epoch)


def with_assigned_offsets(
    batch: memoryview, base_offset: Offset, leader_epoch: LeaderEpoch, append_time_ms: int | None
) -> tuple[bytes | bytearray, memoryview]:
    """Return the batch as the log stores it, in two pieces: a new beginning, and the rest uncopied.

    `append_time_ms`, if given, becomes the timestamp of every record.
    """
    if append_time_ms is None:
        return _PLACE.pack(base_offset, len(batch) - _LENGTH_STARTS_AT, leader_epoch), batch[_MAGIC_AT:]
    return _placed_at(batch, base_offset, leader_epoch, append_time_ms)


def _placed_at(
    batch: memoryview, base_offset: Offset, leader_epoch: LeaderEpoch, append_time_ms: int
) -> tuple[bytearray, memoryview]:
    header, payload = bytearray(batch[:HEADER_BYTES]), batch[HEADER_BYTES:]
    assign_offsets(header, 0, base_offset, leader_epoch)
    (attributes,) = _ATTRIBUTES.unpack_from(header, _CRC_COVERS_FROM)
    _ATTRIBUTES.pack_into(header, _CRC_COVERS_FROM, attributes | _LOG_APPEND_TIME_BIT)
    _TIMESTAMP.pack_into(header, _MAX_TIMESTAMP_AT, append_time_ms)
    _CRC.pack_into(header, _CRC_STARTS_AT, crc32c(payload, crc32c(header[_CRC_COVERS_FROM:])))
    return header, payload
