from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.record_codec import (
    Record,
    append_record,
    decode_columns,
    decode_records,
    encode_records,
    encode_varint,
)
from kraft.model.errors import InvalidBatch

NULLABLE = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), NULLABLE), max_size=4).map(tuple)
TIMESTAMPS = st.integers(-(2**62), 2**62)
FIELDS = st.tuples(TIMESTAMPS, NULLABLE, NULLABLE, HEADERS)


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
def test_varints_are_zigzag_with_seven_bits_a_byte(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


def test_golden_a_record_with_key_value_and_headers() -> None:
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
    assert encode_records([record], base_timestamp_ms=1000) == golden
    assert decode_records(golden, 1, base_offset=101, base_timestamp_ms=1000) == [record]


def test_golden_null_key_and_value_and_an_earlier_timestamp() -> None:
    records = [Record(5, 1000, b"", None), Record(6, 999, None, b"")]
    golden = bytes.fromhex("0c 00 00 00 00 01 00  0c 00 01 02 01 00 00")
    assert encode_records(records, base_timestamp_ms=1000) == golden
    assert decode_records(golden, 2, base_offset=5, base_timestamp_ms=1000) == records


@given(st.lists(FIELDS, max_size=20), st.integers(0, 2**40))
def test_records_come_back(fields: list[tuple[int, bytes | None, bytes | None, tuple[()]]], base: int) -> None:
    records = [Record(base + index, *rest) for index, rest in enumerate(fields)]
    encoded = encode_records(records, base_timestamp_ms=7)
    assert decode_records(encoded, len(records), base, 7) == records
    columns = decode_columns(encoded, len(records), base, 7)
    assert columns.offsets == [record.offset for record in records]
    assert columns.timestamps_ms == [record.timestamp_ms for record in records]
    assert columns.keys == [record.key for record in records]
    assert columns.values == [record.value for record in records]
    assert columns.headers == [record.headers for record in records]


def test_large_fields_come_back() -> None:
    record = Record(0, 0, b"k" * 3000, b"v" * 100_000, (("h" * 3000, b"x" * 3000),) * 100)
    assert decode_records(encode_records([record], 0), 1, 0, 0) == [record]


def test_a_record_says_how_large_it_is() -> None:
    parts: list[bytes] = []
    size = append_record(parts, 3000, 5_000_000_000, b"key", b"value" * 1000, (("a", b"b"),))
    assert size == len(b"".join(parts))


def test_a_count_that_the_payload_cannot_hold_is_refused_at_once() -> None:
    with pytest.raises(InvalidBatch, match="2000000000 records"):
        decode_records(b"\x0c\x00\x00\x00\x01\x01\x00", 2_000_000_000, 0, 0)


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
def test_broken_records_are_refused_with_the_reason(payload: str, reason: str) -> None:
    with pytest.raises(InvalidBatch, match=reason):
        decode_records(bytes.fromhex(payload), 1, 0, 0)


def test_a_timestamp_outside_64_bits_is_refused() -> None:
    encoded = encode_records([Record(0, 100, None, None)], 0)
    with pytest.raises(InvalidBatch, match="64 bits"):
        decode_records(encoded, 1, 0, 2**63 - 1)


@given(st.binary(max_size=120), st.integers(-5, 20), st.binary(max_size=4), st.integers(0, 60))
def test_any_bytes_end_in_invalid_batch(garbage: bytes, count: int, patch: bytes, position: int) -> None:
    whole = encode_records([Record(0, 5, b"key", b"value", (("h", b"x"),)), Record(1, 900, None, b"v" * 30)], 0)
    damaged = whole[:position] + patch + whole[position + len(patch) :]
    for payload, records in ((garbage, count), (damaged, 2), (whole[:position], 2)):
        try:
            assert len(decode_records(payload, records, 0, 0)) == records
        except InvalidBatch:
            continue
