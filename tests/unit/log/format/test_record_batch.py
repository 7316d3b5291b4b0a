from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import (
    HEADER_BYTES,
    TimestampType,
    assign_offsets,
    build_batch,
    check_crc,
    decode_batch,
    decode_batch_columns,
    iter_records,
    read_header,
    rebuild_batch,
    split,
    validate,
    with_assigned_offsets,
)
from kraft.log.format.record_codec import Record, RecordColumns
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.ids import LeaderEpoch, Offset

RECORD = Record(0, 1000, b"k", b"v")
ENCODED_RECORD = "10 00 00 00 02 6b 02 76 00"
NO_PRODUCER = "ffffffffffffffff ffff ffffffff"

# Each is laid out by hand from the format's definition: base offset, length, leader epoch, magic, CRC | attributes,
# last offset delta, base and max timestamp, producer id, epoch and sequence, count | records.
PLAIN = bytes.fromhex(
    "0000000000000005 0000003a 00000003 02 716a6189"
    f"0000 00000000 00000000000003e8 00000000000003e8 {NO_PRODUCER} 00000001 {ENCODED_RECORD}"
)
TRANSACTIONAL = bytes.fromhex(
    "0000000000000000 0000003a ffffffff 02 b92596c7"
    f"0010 00000000 00000000000003e8 00000000000003e8 0000000000000fa0 0002 00000007 00000001 {ENCODED_RECORD}"
)
TWO_RECORDS = bytes.fromhex(
    "0000000000000000 00000044 ffffffff 02 717b8e69"
    f"0000 00000001 00000000000003e8 00000000000003ed {NO_PRODUCER} 00000002"
    "14 00 00 00 01 02 61 02 02 68 01  0e 00 0a 02 02 62 01 00"
)
APPEND_TIME = bytes.fromhex(
    "0000000000000009 0000003a 00000004 02 4dacf1c5"
    f"0008 00000000 00000000000003e8 00000000000007d0 {NO_PRODUCER} 00000001 {ENCODED_RECORD}"
)
COMPRESSED = {
    Codec.GZIP: bytes.fromhex(
        "0000000000000000 0000004e ffffffff 02 bfddc210"
        f"0001 00000000 00000000000003e8 00000000000003e8 {NO_PRODUCER} 00000001"
        "1f8b0800000000000003 1360606060ca662a630000 a37fcfa6 09000000"
    ),
    Codec.SNAPPY: bytes.fromhex(
        "0000000000000000 00000050 ffffffff 02 8e35bd92"
        f"0002 00000000 00000000000003e8 00000000000003e8 {NO_PRODUCER} 00000001"
        f"82534e4150505900 00000001 00000001 0000000b 09 20 {ENCODED_RECORD}"
    ),
    Codec.LZ4: bytes.fromhex(
        "0000000000000000 00000049 ffffffff 02 f4283fbe"
        f"0003 00000000 00000000000003e8 00000000000003e8 {NO_PRODUCER} 00000001"
        f"04224d18 60 40 82 09000080 {ENCODED_RECORD} 00000000"
    ),
    Codec.ZSTD: bytes.fromhex(
        "0000000000000000 00000043 ffffffff 02 773f945b"
        f"0004 00000000 00000000000003e8 00000000000003e8 {NO_PRODUCER} 00000001"
        f"28b52ffd 20 09 490000 {ENCODED_RECORD}"
    ),
}
GOLDEN = [PLAIN, TRANSACTIONAL, TWO_RECORDS, APPEND_TIME, *COMPRESSED.values()]


def bitwise_crc32c(data: bytes) -> int:
    """The definition, one bit at a time: an oracle that shares nothing with the library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("golden", GOLDEN)
def test_golden_checksums_follow_the_definition(golden: bytes) -> None:
    assert int.from_bytes(golden[17:21], "big") == bitwise_crc32c(golden[21:])
    assert validate(golden).size_bytes == len(golden)


def test_golden_a_plain_batch_both_ways() -> None:
    assert build_batch([RECORD], base_offset=5, leader_epoch=3) == PLAIN
    header = read_header(PLAIN)
    assert (header.base_offset, header.last_offset, header.next_offset) == (5, 5, 6)
    assert (header.leader_epoch, header.record_count, header.max_timestamp_ms) == (3, 1, 1000)
    assert header.codec is Codec.NONE
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control
    assert not header.has_producer
    assert header.last_sequence == -1
    assert decode_batch(PLAIN) == [RECORD._replace(offset=5)]


def test_golden_a_transactional_batch_both_ways() -> None:
    built = build_batch([RECORD], producer_id=4000, producer_epoch=2, base_sequence=7, transactional=True)
    assert built == TRANSACTIONAL
    header = read_header(TRANSACTIONAL)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (4000, 2, 7, 7)


def test_golden_deltas_headers_and_nulls_both_ways() -> None:
    records = [Record(0, 1000, None, b"a", (("h", None),)), Record(1, 1005, b"b", None)]
    assert build_batch(records) == TWO_RECORDS
    assert decode_batch(TWO_RECORDS) == records


def test_golden_append_time_is_set_in_the_header_alone() -> None:
    header, payload = with_assigned_offsets(
        memoryview(build_batch([RECORD])), Offset(9), LeaderEpoch(4), append_time_ms=2000
    )
    assert bytes(header) + bytes(payload) == APPEND_TIME
    assert read_header(APPEND_TIME).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert decode_batch(APPEND_TIME) == [RECORD._replace(offset=9, timestamp_ms=2000)]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_golden_compressed_batches_are_read(codec: Codec) -> None:
    assert validate(COMPRESSED[codec]).codec is codec
    assert decode_batch(COMPRESSED[codec]) == [RECORD]


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4])
def test_golden_compressed_batches_are_written(codec: Codec) -> None:
    assert build_batch([RECORD], codec) == COMPRESSED[codec]


def test_sequences_wrap_behind_the_largest() -> None:
    batch = build_batch([RECORD] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


NULLABLE = st.none() | st.binary(max_size=50)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp_ms=st.integers(0, 2**50),
        key=NULLABLE,
        value=NULLABLE,
        headers=st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=10,
)


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(0, 2**40))
def test_a_batch_comes_back_in_every_codec(records: list[Record], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, codec, base_offset=base_offset, leader_epoch=3)
    header = validate(batch)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    numbered = [record._replace(offset=base_offset + index) for index, record in enumerate(records)]
    assert decode_batch(batch) == numbered
    assert list(iter_records(batch)) == numbered
    assert decode_batch_columns(batch).keys == [record.key for record in records]


def test_placing_a_batch_leaves_its_checksum_valid() -> None:
    buffer = bytearray(b"before" + PLAIN)
    assign_offsets(buffer, 6, Offset(2**40), LeaderEpoch(17))
    header = validate(buffer[6:])
    assert (header.base_offset, header.leader_epoch, header.crc) == (2**40, 17, read_header(PLAIN).crc)


def test_batches_back_to_back_are_split_without_a_copy() -> None:
    batches = split(PLAIN + TWO_RECORDS)
    assert [header.record_count for header, _ in batches] == [1, 2]
    assert [bytes(batch) for _, batch in batches] == [PLAIN, TWO_RECORDS]
    assert len(list(iter_records(PLAIN + TWO_RECORDS))) == 3


def test_a_consumer_does_not_see_control_records() -> None:
    control = bytearray(PLAIN)
    control[22] |= 0x20
    control[17:21] = bitwise_crc32c(bytes(control[21:])).to_bytes(4, "big")
    assert read_header(control).is_control
    assert list(iter_records(bytes(control) + PLAIN)) == decode_batch(PLAIN)


def test_the_delete_horizon_stands_where_the_base_timestamp_stood() -> None:
    header = read_header(TWO_RECORDS)
    assert header.delete_horizon_ms is None
    marked = bytearray(rebuild_batch(header, decode_batch_columns(TWO_RECORDS), delete_horizon_ms=70_000))
    assert marked[22] & 0x40
    assert validate(marked).delete_horizon_ms == 70_000
    assert decode_batch(marked) == decode_batch(TWO_RECORDS)


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_with_holes_keeps_its_offsets(codec: Codec) -> None:
    records = [Record(100 + index, 1000 + index, None, b"%d" % index) for index in range(10)]
    header = read_header(build_batch(records, codec, base_offset=100))
    kept = records[2:8:3]
    rebuilt = rebuild_batch(header, RecordColumns(*map(list, zip(*kept, strict=True))))
    assert (read_header(rebuilt).base_offset, read_header(rebuilt).last_offset) == (100, 109)
    assert read_header(rebuilt).codec is codec
    assert decode_batch(rebuilt) == kept
    assert decode_batch(rebuild_batch(header, RecordColumns([], [], [], [], []))) == []


def test_a_batch_is_decompressed_only_when_its_records_are_requested() -> None:
    broken_inside = bytearray(build_batch([RECORD], Codec.GZIP, base_offset=1))
    broken_inside[HEADER_BYTES] ^= 0xFF
    broken_inside[17:21] = bitwise_crc32c(bytes(broken_inside[21:])).to_bytes(4, "big")
    records = iter_records(PLAIN + bytes(broken_inside))
    assert [header.record_count for header, _ in split(PLAIN + bytes(broken_inside))] == [1, 1]
    assert next(records) == RECORD._replace(offset=5)
    with pytest.raises(InvalidBatch, match="gzip payload"):
        next(records)


def test_what_readers_would_take_for_a_bomb_is_sent_uncompressed() -> None:
    records = [Record(0, 1, None, bytes(20 << 20))]
    assert read_header(build_batch(records, Codec.ZSTD)).codec is Codec.NONE
    assert decode_batch(build_batch(records, Codec.ZSTD)) == records
    assert read_header(build_batch([RECORD] * 1000, Codec.ZSTD)).codec is Codec.ZSTD


def test_fields_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidBatch, match="out of range"):
        build_batch([Record(0, 2**63, None, None)])
    with pytest.raises(InvalidBatch, match="out of range"):
        build_batch([RECORD], producer_epoch=40_000)
    with pytest.raises(InvalidBatch, match="is no text"):
        build_batch([RECORD._replace(headers=(("\ud800", None),))])


def test_a_batch_without_an_offset_is_refused() -> None:
    # A reader that continues from the offset behind it would read it again.
    nowhere = bytearray(PLAIN)
    nowhere[23:27] = b"\xff" * 4
    nowhere[57:61] = bytes(4)
    with pytest.raises(InvalidBatch, match="0 records within 0 offsets"):
        read_header(nowhere)


def test_offsets_beyond_the_last_that_there_is_are_refused() -> None:
    last = bytearray(TWO_RECORDS)
    last[0:8] = (2**63 - 2).to_bytes(8, "big")
    assert read_header(last).last_offset == 2**63 - 1
    last[0:8] = (2**63 - 1).to_bytes(8, "big")
    with pytest.raises(InvalidBatch, match="2 records within 2 offsets from 9223372036854775807"):
        read_header(last)


@pytest.mark.parametrize(
    ("position", "patch", "reason", "code"),
    [
        (16, b"\x01", "format 1 are not supported", ErrorCode.INVALID_RECORD),
        (16, b"\x09", "format 9", ErrorCode.CORRUPT_MESSAGE),
        (8, b"\xff\xff\xff\xff", "length of -1", ErrorCode.CORRUPT_MESSAGE),
        (22, b"\x05", "unknown compression codec", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (57, b"\x00\x00\x00\x02", "2 records within 1 offsets", ErrorCode.INVALID_RECORD),
        (57, b"\xff\xff\xff\xff", "-1 records", ErrorCode.INVALID_RECORD),
        (23, b"\xff\xff\xff\xf0", "records within", ErrorCode.INVALID_RECORD),
        (0, b"\xff", "from -", ErrorCode.INVALID_RECORD),
        (23, b"\xff\xff\xff\xff", "1 records within 0 offsets", ErrorCode.INVALID_RECORD),
    ],
)
def test_a_broken_header_is_refused_with_kafkas_code(position: int, patch: bytes, reason: str, code: ErrorCode) -> None:
    broken = PLAIN[:position] + patch + PLAIN[position + len(patch) :]
    with pytest.raises(InvalidBatch, match=reason) as refused:
        read_header(broken)
    assert refused.value.error_code is code


def test_every_flipped_bit_under_the_checksum_is_noticed() -> None:
    for bit in range(17 * 8, len(PLAIN) * 8):
        flipped = bytearray(PLAIN)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidBatch):
            validate(flipped)


def test_a_batch_cut_anywhere_is_refused() -> None:
    for size in range(1, len(PLAIN)):
        with pytest.raises(InvalidBatch):
            split(PLAIN[:size])


def test_offsets_beyond_the_end_that_the_header_names_are_refused() -> None:
    batch = bytearray(TWO_RECORDS)
    batch[HEADER_BYTES + 11 + 3] = 0x08  # The second record's offset delta becomes 4.
    with pytest.raises(InvalidBatch, match="holds offset 4"):
        decode_batch(batch)


@given(st.binary(max_size=200), st.sampled_from(GOLDEN), st.integers(0, 100), st.binary(max_size=4))
def test_any_bytes_end_in_invalid_batch(garbage: bytes, golden: bytes, position: int, patch: bytes) -> None:
    damaged = golden[:position] + patch + golden[position + len(patch) :]
    for data in (garbage, damaged, golden[:HEADER_BYTES] + garbage):
        for read in (validate, split, decode_batch, lambda data: list(iter_records(data))):
            try:
                read(data)
            except InvalidBatch:
                continue


def test_checksum_failure_names_both_sums() -> None:
    with pytest.raises(InvalidBatch, match="0x716a6189"):
        check_crc(read_header(PLAIN), PLAIN[:-1] + b"\x01")
