"""Columns in Arrow's format. Every test runs twice: interpreted, and compiled by mypyc."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.arrow_columns import WantedColumns
from kraft.log.format.bytes_writer import BytesWriter
from kraft.log.format.record_codec import Record, decode_columns, encode_columns, encode_records, encode_varint
from kraft.model.errors import ErrorCode, InvalidBatch
from tests.support.arrow_columns import Lists, lists_of
from tests.support.log.codec_variants import compiled_arrow_columns, pure_arrow_columns

NULLABLE = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=20), NULLABLE), max_size=3).map(tuple)
TIMESTAMPS_MS = st.integers(-(2**62), 2**62)
FIELDS = st.lists(st.tuples(TIMESTAMPS_MS, NULLABLE, NULLABLE, HEADERS), max_size=30)
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
ALL = 1 << 40
RECORDS = [
    Record(0, 5, b"key", b"value", (("h", b"x"), ("n", None))),
    Record(1, 900, None, b"v" * 30),
    Record(2, 900, b"k" * 12, b"v" * 13, (("name", b"h" * 20),)),
]


@pytest.fixture(scope="module", params=["pure", "compiled"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    found = pure_once() if request.param == "pure" else compiled_arrow_columns()
    if found is None:
        pytest.skip("the record codec is not compiled here")
    return found


@cache
def pure_once() -> ModuleType:
    return pure_arrow_columns()


def collector(module: ModuleType, records_max: int = ALL, bytes_max: int = ALL, **wanted: bool) -> Any:
    return module.ArrowColumns(WantedColumns(**wanted), records_max, bytes_max)


def decoded(module: ModuleType, payload: bytes, count: int, last_offset: int = 1000, **wanted: bool) -> Lists:
    columns = collector(module, **wanted)
    columns.begin(count, len(payload), 0, last_offset, 0, None, 0, ALL)
    position = columns.take(payload, 0, len(payload))
    if columns.left or position != len(payload):
        raise InvalidBatch(f"{columns.left} records are not whole, {len(payload) - position} bytes are left")
    return lists_of(columns.finish())


def expected(records: list[Record]) -> Lists:
    return Lists(
        offsets=[each.offset for each in records],
        timestamps_us=[
            each.timestamp_ms * 1000 if abs(each.timestamp_ms) <= TIMESTAMP_MS_MAX else None for each in records
        ],
        keys=[each.key for each in records],
        values=[each.value for each in records],
        headers=[list(each.headers) or None for each in records],
    )


def test_the_interpreted_decoder_needs_no_librt() -> None:
    module = pure_arrow_columns(without_librt=True)
    assert module.BytesWriter is BytesWriter
    assert decoded(module, encode_records(RECORDS, 0), 3) == expected(RECORDS)
    with pytest.raises(IndexError):
        module.read_i32_le(b"abc", 0)
    with pytest.raises(IndexError):
        module.read_i64_le(b"abcdefgh", -1)


@given(FIELDS, st.integers(0, 40))
def test_the_columns_are_those_of_the_record_codec(module: ModuleType, fields: list[Any], base_offset: int) -> None:
    records = [Record(base_offset + at, *each) for at, each in enumerate(fields)]
    payload = encode_records(records, 0)
    columns = collector(module)
    columns.begin(len(records), len(payload), base_offset, base_offset + 100, 0, None, 0, ALL)
    assert columns.take(payload, 0, len(payload)) == len(payload)
    assert columns.left == 0
    assert decode_columns(payload, len(records), base_offset, 0).to_records() == records
    assert lists_of(columns.finish()) == expected(records)


@given(FIELDS, st.tuples(*[st.booleans()] * 5))
def test_only_wanted_columns_are_decoded(module: ModuleType, fields: list[Any], flags: tuple[bool, ...]) -> None:
    records = [Record(at, *each) for at, each in enumerate(fields)]
    wanted = dict(zip(WantedColumns._fields, flags, strict=True))
    found = decoded(module, encode_records(records, 0), len(records), **wanted)
    assert list(found) == [
        each if is_wanted else None for each, is_wanted in zip(expected(records), flags, strict=True)
    ]


@given(FIELDS, st.lists(st.integers(0, 3000), max_size=5), st.integers(1, 8), st.integers(1, 200), st.data())
def test_in_any_parts_and_any_limits_the_same_records_come(
    module: ModuleType, fields: list[Any], cuts: list[int], records_max: int, bytes_max: int, data: st.DataObject
) -> None:
    records = [Record(at, *each) for at, each in enumerate(fields)]
    start, end = sorted((data.draw(st.integers(0, 31)), data.draw(st.integers(0, 31))))
    payload = encode_records(records, 0)
    columns = collector(module, records_max, bytes_max)
    columns.begin(len(records), len(payload), 0, 100, 0, None, start, end)
    found: list[Record] = []

    def finish() -> None:
        if columns.count:
            lists = lists_of(columns.finish())
            assert len(lists.offsets or ()) <= records_max
            assert lists == expected(records[(lists.offsets or [0])[0] :][: len(lists.offsets or ())])
            found.extend(records[offset] for offset in lists.offsets or ())

    rest = b""
    edges = [0, *sorted(cut % (len(payload) + 1) for cut in cuts), len(payload)]
    for begin, until in pairwise(edges):
        part = rest + payload[begin:until]
        position = columns.take(part, 0, len(part))
        while columns.is_full:
            finish()
            position = columns.take(part, position, len(part))
        rest = part[position:]
    finish()
    assert found == records[start:end]
    assert columns.is_past_end == (end < len(records))
    assert columns.is_past_end or (columns.left == 0 and not rest)


def test_a_record_above_the_limit_in_bytes_comes_alone(module: ModuleType) -> None:
    records = [Record(at, 0, None, b"v" * 100) for at in range(3)]
    payload = encode_records(records, 0)
    columns = collector(module, bytes_max=10)
    columns.begin(3, len(payload), 0, 2, 0, None, 0, ALL)
    position = columns.take(payload, 0, len(payload))
    assert (columns.count, columns.left, columns.next_offset, columns.is_full) == (1, 2, 1, True)
    assert columns.take(payload, position, len(payload)) == position, "nothing is taken before they are finished"
    assert lists_of(columns.finish()) == expected(records[:1])
    columns.take(payload, position, len(payload))
    assert lists_of(columns.finish()) == expected(records[1:2])


def test_many_batches_become_the_same_columns_with_their_own_times(module: ModuleType) -> None:
    columns = collector(module)
    packed = encode_records([Record(0, 7, b"k", b"v" * 20)], 0)
    columns.begin(1, len(packed), 10, 10, 0, None, 0, ALL)
    columns.take(packed, 0, len(packed))
    columns.begin(1, len(packed), 20, 20, 100, None, 0, ALL)
    columns.take(b"--" + packed + b"--", 2, 2 + len(packed))
    columns.begin(1, len(packed), 30, 30, 0, 5_000, 0, ALL)
    columns.take(packed, 0, len(packed))
    found = lists_of(columns.finish())
    assert (found.offsets, found.timestamps_us) == ([10, 20, 30], [7_000, 107_000, 5_000_000])
    assert found.values == [b"v" * 20] * 3


@pytest.mark.parametrize("length", range(15))
@pytest.mark.parametrize("behind", [0, 1, 30])
def test_short_values_stand_in_their_views(module: ModuleType, length: int, behind: int) -> None:
    value = bytes(range(0xFF, 0xFF - length, -1))
    payload = encode_records([Record(0, 0, value, value)], 0)
    columns = collector(module)
    columns.begin(1, len(payload), 0, 0, 0, None, 0, ALL)
    assert columns.take(payload + b"\xff" * behind, 0, len(payload)) == len(payload)
    found = lists_of(columns.finish())
    assert (found.keys, found.values) == ([value], [value])


def test_a_time_that_does_not_fit_in_microseconds_is_null(module: ModuleType) -> None:
    times = [0, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX + 1, -TIMESTAMP_MS_MAX - 1, -1]
    payload = encode_records([Record(at, each, None, None) for at, each in enumerate(times)], 0)
    found = decoded(module, payload, len(times)).timestamps_us
    assert found == [0, TIMESTAMP_MS_MAX * 1000, None, None, -1000]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"\xff\xfe", "\ufffd\ufffd"),
        ("Straße mit einem langen Namen".encode(), "Straße mit einem langen Namen"),
        (b"a long name with one wrong \x80 byte", "a long name with one wrong \ufffd byte"),
    ],
)
def test_header_names_that_are_not_utf8_are_shown_as_java_shows_them(
    module: ModuleType, name: bytes, shown: str
) -> None:
    header = encode_varint(len(name)) + name + encode_varint(1) + b"x"
    body = bytes(3) + encode_varint(-1) + encode_varint(-1) + encode_varint(1) + header
    payload = encode_varint(len(body)) + body
    assert decoded(module, payload, 1).headers == [[(shown, b"x")]]


def test_a_record_with_a_million_headers_is_refused(module: ModuleType) -> None:
    count = (1 << 20) + 1
    body = bytes(3) + encode_varint(-1) + encode_varint(-1) + encode_varint(count) + bytes(2 * count)
    payload = encode_varint(len(body)) + body
    with pytest.raises(InvalidBatch, match="1048577 headers") as refused:
        decoded(module, payload, 1)
    assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert decoded(module, payload, 1, headers=False).offsets == [0]


@pytest.mark.parametrize(
    ("count", "size_bytes", "base_offset", "last_offset", "base_timestamp_ms"),
    [
        (-1, 100, 0, 0, 0),
        (9, 60, 0, 8, 0),
        (1, 100, -1, 0, 0),
        (1, 100, 5, 4, 0),
        (1, 100, 2**63, 2**63, 0),
        (1, 100, 0, 2**31, 0),
        (1, 100, 0, 0, 2**63),
    ],
)
def test_an_impossible_batch_is_refused_before_its_records(
    module: ModuleType, count: int, size_bytes: int, base_offset: int, last_offset: int, base_timestamp_ms: int
) -> None:
    with pytest.raises(InvalidBatch):
        collector(module).begin(count, size_bytes, base_offset, last_offset, base_timestamp_ms, None, 0, ALL)


def test_an_offset_behind_that_of_the_header_is_refused(module: ModuleType) -> None:
    with pytest.raises(InvalidBatch, match="ends at offset 1 holds offset 2"):
        decoded(module, encode_records(RECORDS, 0), 3, last_offset=1)


def test_offsets_with_gaps_are_kept_and_those_that_do_not_ascend_refused(module: ModuleType) -> None:
    columns = decode_columns(encode_records(RECORDS, 0), 3, 0, 0)
    gaps = columns._replace(offsets=[4, 9, 50])
    assert decoded(module, encode_columns(gaps, 0, 0), 3).offsets == [4, 9, 50]
    with pytest.raises(InvalidBatch, match="do not ascend"):
        decoded(module, encode_columns(columns._replace(offsets=[4, 4, 5]), 0, 0), 3)


def test_both_decoders_and_the_record_codec_say_the_same_of_broken_bytes(module: ModuleType) -> None:
    whole = encode_records(RECORDS, 0)
    for position in range(len(whole)):
        for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = whole[:position] + bytes([byte]) + whole[position + 1 :]
            found = outcome(module, damaged, 3)
            assert found == outcome(pure_once(), damaged, 3)
            assert agrees_with_the_record_codec(found, damaged)


def agrees_with_the_record_codec(found: Lists | str, payload: bytes) -> bool:
    try:
        columns = decode_columns(payload, 3, 0, 0)
    except InvalidBatch as error:
        return isinstance(found, str) or "UTF-8" in error.message
    # The record codec does not know the last offset of the batch.
    return found == expected(columns.to_records()) or columns.offsets[-1] > 1000


def outcome(module: ModuleType, payload: bytes, count: int) -> Lists | str:
    try:
        return decoded(module, payload, count)
    except InvalidBatch as error:
        return str(error)


@given(st.binary(max_size=120), st.integers(-5, 20), st.binary(max_size=4), st.integers(0, 60))
def test_any_bytes_end_in_invalid_batch(
    module: ModuleType, garbage: bytes, count: int, patch: bytes, position: int
) -> None:
    whole = encode_records(RECORDS, 0)
    damaged = whole[:position] + patch + whole[position + len(patch) :]
    for payload, records in ((garbage, count), (damaged, 3), (whole[:position], 3)):
        assert outcome(module, payload, records) == outcome(pure_once(), payload, records)
