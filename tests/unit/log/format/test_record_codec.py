"""The record codec. Every test runs twice: interpreted, and compiled by mypyc."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.bytes_writer import BytesWriter
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, InvalidBatch
from tests.support.log.codec_variants import pure_codec

NULLABLE = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), NULLABLE), max_size=4).map(tuple)
TIMESTAMPS = st.integers(-(2**62), 2**62)
FIELDS = st.tuples(TIMESTAMPS, NULLABLE, NULLABLE, HEADERS)
INT64_MAX = 2**63 - 1


def test_the_interpreted_codec_needs_no_librt() -> None:
    codec = pure_codec(without_librt=True)
    assert codec.BytesWriter is BytesWriter
    record = Record(5, 1000, b"k", b"v" * 300, (("h", None),))
    encoded = codec.encode_records([record], 1000)
    assert encoded == pure_codec().encode_records([record], 1000)
    assert codec.decode_records(encoded, 1, 5, 1000) == [record]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_are_zigzag_with_seven_bits_a_byte(codec: ModuleType, value: int, encoded: str) -> None:
    assert codec.encode_varint(value).hex() == encoded


def test_golden_a_record_with_key_value_and_headers(codec: ModuleType) -> None:
    record = Record(offset=101, timestamp_ms=1010, key=b"k", value=b"vv", headers=(("h", b"x"), ("n", None)))
    golden = bytes.fromhex(
        "20"  # 16 bytes follow
        "00"  # attributes
        "14"  # timestamp delta 10
        "00"  # offset delta 0
        "02 6b"  # key of 1 byte
        "04 7676"  # value of 2 bytes
        "04"  # 2 headers
        "02 68 02 78"  # h: x
        "02 6e 01"  # n: null
    )
    assert codec.encode_records([record], base_timestamp_ms=1000) == golden
    assert codec.decode_records(golden, 1, base_offset=101, base_timestamp_ms=1000) == [record]


def test_golden_null_key_and_value_and_an_earlier_timestamp(codec: ModuleType) -> None:
    records = [Record(5, 1000, b"", None), Record(6, 999, None, b"")]
    golden = bytes.fromhex("0c 00 00 00 00 01 00  0c 00 01 02 01 00 00")
    assert codec.encode_records(records, base_timestamp_ms=1000) == golden
    assert codec.decode_records(golden, 2, base_offset=5, base_timestamp_ms=1000) == records


@given(st.lists(FIELDS, max_size=20), st.integers(0, 2**40))
def test_records_come_back(
    codec: ModuleType, fields: list[tuple[int, bytes | None, bytes | None, tuple[()]]], base: int
) -> None:
    records = [Record(base + index, *rest) for index, rest in enumerate(fields)]
    encoded = codec.encode_records(records, base_timestamp_ms=7)
    assert codec.decode_records(encoded, len(records), base, 7) == records
    columns = codec.decode_columns(encoded, len(records), base, 7)
    assert columns.offsets == [record.offset for record in records]
    assert columns.timestamps_ms == [record.timestamp_ms for record in records]
    assert columns.keys == [record.key for record in records]
    assert columns.values == [record.value for record in records]
    assert columns.headers == [record.headers for record in records]


def test_large_fields_come_back(codec: ModuleType) -> None:
    record = Record(0, 0, b"k" * 3000, b"v" * 100_000, (("h" * 3000, b"x" * 3000),) * 100)
    assert codec.decode_records(codec.encode_records([record], 0), 1, 0, 0) == [record]


def test_columns_keep_their_offsets(codec: ModuleType) -> None:
    records = [Record(10, 5, b"a", None), Record(13, 4, None, b"b", (("h", b""),)), Record(5000, 9, b"", b"")]
    columns = codec.RecordColumns(*map(list, zip(*records, strict=True)))
    encoded = codec.encode_columns(columns, 10, 5)
    assert codec.decode_records(encoded, 3, 10, 5) == records
    assert codec.decode_columns(encoded, 3, 10, 5) == columns
    assert codec.encode_columns(codec.RecordColumns([], [], [], [], []), 10, 5) == b""


@given(FIELDS, st.integers(0, 2**20))
def test_both_codecs_write_the_same_bytes(
    codec: ModuleType, fields: tuple[int, bytes | None, bytes | None, tuple[()]], offset: int
) -> None:
    timestamp, key, value, headers = fields
    columns = codec.RecordColumns([offset], [timestamp], [key], [value], [headers])
    assert codec.encode_columns(columns, 0, 0) == pure_codec_once().encode_columns(columns, 0, 0)


def test_a_count_that_the_payload_cannot_hold_is_refused_at_once(codec: ModuleType) -> None:
    with pytest.raises(InvalidBatch, match="2000000000 records"):
        codec.decode_records(b"\x0c\x00\x00\x00\x01\x01\x00", 2_000_000_000, 0, 0)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("7e 00 00 00 01 01 00", "does not fit"),
        ("01 00 00 00 01 01 00", "does not fit"),
        ("0c 00 00 00 40 01 00", "reaches beyond"),
        ("0c 00 00 00 05 01 00", "has length -3"),
        ("0c 00 00 00 01 01 7e", "claims 63 headers"),
        ("10 00 00 00 01 01 02 01 01", "key of a header is null"),
        ("12 00 00 00 01 01 02 02 ff 01", "not UTF-8"),
        ("0e 00 00 00 01 01 00 00", "ends 1 bytes away"),
        ("0c 00 00 00 01 01 00 00", "follow the last record"),
        ("0c 00 00 01 01 01 00", "do not ascend"),
        ("16 00 80808080808080808080 00", "longer than 10"),
        ("ffffffff7f 00 00 00 01 01 00", "too many bits"),
    ],
)
def test_broken_records_are_refused_with_the_reason(codec: ModuleType, payload: str, reason: str) -> None:
    with pytest.raises(InvalidBatch, match=reason):
        codec.decode_records(bytes.fromhex(payload), 1, 0, 0)


@pytest.mark.parametrize(("delta", "base"), [(100, INT64_MAX), (1, INT64_MAX), (-1, -(2**63)), (INT64_MAX, 1)])
def test_a_timestamp_outside_64_bits_is_refused(codec: ModuleType, delta: int, base: int) -> None:
    encoded = codec.encode_records([Record(0, delta, None, None)], 0)
    with pytest.raises(InvalidBatch, match="64 bits"):
        codec.decode_records(encoded, 1, 0, base)


@pytest.mark.parametrize(
    ("first", "second"), [(0, INT64_MAX), (INT64_MAX, 0), (INT64_MAX, INT64_MAX), (-(2**63), -(2**63)), (-1, -(2**63))]
)
def test_the_outermost_timestamps_come_back(codec: ModuleType, first: int, second: int) -> None:
    records = [Record(0, first, None, None), Record(1, second, None, None)]
    assert codec.decode_records(codec.encode_records(records, first), 2, 0, first) == records


def test_timestamps_more_than_64_bits_apart_are_not_encoded(codec: ModuleType) -> None:
    records = [Record(0, -(2**63), None, None), Record(1, INT64_MAX, None, None)]
    with pytest.raises(InvalidBatch, match="too far apart") as refused:
        codec.encode_records(records, -(2**63))
    assert refused.value.error_code is ErrorCode.INVALID_TIMESTAMP
    columns = codec.RecordColumns(*map(list, zip(*records, strict=True)))
    with pytest.raises(InvalidBatch, match="too far apart"):
        codec.encode_columns(columns, 0, -(2**63))


def test_offsets_outside_64_bits_are_refused(codec: ModuleType) -> None:
    encoded = codec.encode_records([Record(0, 0, None, None)], 0)
    for base_offset in (INT64_MAX - 5, 2**63, -(2**70)):
        with pytest.raises(InvalidBatch, match="64 bits"):
            codec.decode_records(encoded, 1, base_offset, 0)
    with pytest.raises(InvalidBatch, match="64 bits"):
        codec.decode_records(encoded, 1, 0, 2**63)


def test_numbers_that_are_longer_than_they_need_be_are_read(codec: ModuleType) -> None:
    # Java reads them as well: key length -1 in two bytes, value length 0 in three.
    payload = bytes.fromhex("12 00 00 00 8100 808000 00")
    assert codec.decode_records(payload, 1, 0, 0) == [Record(0, 0, None, b"")]


def test_both_codecs_say_the_same_of_broken_bytes(codec: ModuleType) -> None:
    whole = codec.encode_records([Record(0, 5, b"key", b"value", (("h", b"x"),)), Record(1, 900, None, b"v" * 30)], 0)
    pure = pure_codec_once()
    for position in range(len(whole)):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = whole[:position] + bytes([byte]) + whole[position + 1 :]
            assert outcome(codec, damaged) == outcome(pure, damaged)


def outcome(codec: ModuleType, payload: bytes) -> object:
    try:
        return codec.decode_records(payload, 2, 0, 0)
    except InvalidBatch as error:
        return str(error)


@cache
def pure_codec_once() -> ModuleType:
    return pure_codec()


@given(st.binary(max_size=120), st.integers(-5, 20), st.binary(max_size=4), st.integers(0, 60))
def test_any_bytes_end_in_invalid_batch(
    codec: ModuleType, garbage: bytes, count: int, patch: bytes, position: int
) -> None:
    whole = codec.encode_records([Record(0, 5, b"key", b"value", (("h", b"x"),)), Record(1, 900, None, b"v" * 30)], 0)
    damaged = whole[:position] + patch + whole[position + len(patch) :]
    for payload, records in ((garbage, count), (damaged, 2), (whole[:position], 2)):
        try:
            assert len(codec.decode_records(payload, records, 0, 0)) == records
        except InvalidBatch:
            continue


# --- looking without decoding --------------------------------------------------------------------------------


def fed(finder: Any, payload: bytes, cuts: list[int]) -> bool:
    """Return whether it finds a record in the payload, cut into pieces at these places."""
    edges = [0, *sorted(cut % (len(payload) + 1) for cut in cuts), len(payload)]
    return any(finder.feed(payload[start:end]) for start, end in pairwise(edges) if start < end)


@given(
    st.lists(FIELDS, min_size=1, max_size=12),
    st.lists(st.integers(0, 5_000), max_size=6),
    TIMESTAMPS,
    st.integers(0, 13),
)
def test_in_any_pieces_the_first_record_of_that_time_and_offset_is_found(
    codec: ModuleType, fields: list[Any], cuts: list[int], timestamp_ms: int, offset: int
) -> None:
    records = [codec.Record(at, *each) for at, each in enumerate(fields)]
    payload = codec.encode_records(records, 0)
    found = next((each for each in records if each.timestamp_ms >= timestamp_ms and each.offset >= offset), None)
    finder = codec.RecordFinder(len(records), timestamp_ms, offset)
    assert fed(finder, payload, cuts) == (found is not None)
    if found is None:
        assert (finder.left, finder.rest) == (0, b"")
    else:
        assert (finder.offset_delta, finder.timestamp_delta) == (found.offset, found.timestamp_ms)
        assert finder.left == len(records) - 1 - found.offset
        assert finder.rest in payload
        assert finder.rest[:1] == codec.encode_records([found], 0)[:1]


@given(st.lists(FIELDS, min_size=1, max_size=5))
def test_the_size_of_a_record_leads_to_the_next(codec: ModuleType, fields: list[Any]) -> None:
    records = [codec.Record(at, *each) for at, each in enumerate(fields)]
    payload, position = codec.encode_records(records, 0), 0
    for record in records:
        size = codec.record_size(payload, position)
        (decoded,) = codec.decode_records(payload[position : position + size], 1, 0, 0)
        assert decoded == record
        position += size
    assert position == len(payload)
    assert codec.record_size(payload, position) == 0


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=4), st.integers(0, 2**31 - 1))
def test_a_finder_takes_any_bytes(codec: ModuleType, data: bytes, cuts: list[int], count: int) -> None:
    with suppress(codec.InvalidBatch):
        fed(codec.RecordFinder(count, 5, 1), data, cuts)
    with suppress(codec.InvalidBatch):
        codec.record_size(data, 0)


def test_a_finder_refuses_what_no_record_can_be(codec: ModuleType) -> None:
    payload = codec.encode_records([codec.Record(0, 1, None, b"a"), codec.Record(1, 1, None, b"b")], 0)
    size = codec.record_size(payload, 0)
    for broken, reason in (
        (b"\x02" + payload[1:], "a length of 1"),
        (payload[:size] * 2, "do not ascend"),
        (b"\x0c\x00" + b"\xff" * 9 + b"\x01" + b"\x00" * 8, "behind where it says"),
    ):
        with pytest.raises(codec.InvalidBatch, match=reason):
            codec.RecordFinder(9, 50, 0).feed(broken)
