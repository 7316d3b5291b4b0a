"""The record codec compiled by mypyc and the same source interpreted: the same results and errors for any input."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.log.format.record_codec import Record, RecordColumns, encode_records
from tests.support.log.codec_variants import compiled_codec, outcome, outcomes, pure_codec

RECORDS = [
    Record(0, 1_005, b"key", b"value", (("h", b"x"), ("n", None))),
    Record(1, 900, None, b"v" * 30),
    Record(2, 5_000, b"k" * 70, None, (("name" * 20, b""),)),
]
WHOLE = encode_records(RECORDS, 1_000)
NULLABLE = st.none() | st.binary(max_size=100)
HEADERS = st.lists(st.tuples(st.text(st.characters(), max_size=5), NULLABLE), max_size=3).map(tuple)
"""Some of the names have no UTF-8."""
NUMBERS = st.integers(-(2**65), 2**65) | st.integers(-(2**33), 2**33) | st.sampled_from([2**63 - 1, -(2**63)])
FIELDS = st.tuples(NUMBERS, NUMBERS, NULLABLE, NULLABLE, HEADERS)


@pytest.fixture(scope="module")
def compiled() -> ModuleType:
    found = compiled_codec()
    if found is None:
        pytest.skip("the record codec is not compiled here")
    return found


@cache
def pure() -> ModuleType:
    return pure_codec()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_they_agree_on_records_that_are_cut_off(compiled: ModuleType, count: int) -> None:
    for size in range(len(WHOLE) + 1):
        assert outcomes(compiled, WHOLE[:size], count) == outcomes(pure(), WHOLE[:size], count)


@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_they_agree_on_records_with_a_wrong_byte(compiled: ModuleType, byte: int) -> None:
    for position in range(len(WHOLE)):
        damaged = WHOLE[:position] + bytes([byte]) + WHOLE[position + 1 :]
        assert outcomes(compiled, damaged, 3) == outcomes(pure(), damaged, 3)


@given(
    st.binary(max_size=120), st.integers(-5, 20), st.binary(max_size=12), st.integers(0, len(WHOLE)), NUMBERS, NUMBERS
)
def test_they_agree_on_any_bytes(
    compiled: ModuleType, garbage: bytes, count: int, patch: bytes, position: int, base_offset: int, base_ms: int
) -> None:
    damaged = WHOLE[:position] + patch + WHOLE[position + len(patch) :]
    for payload, records in ((garbage, count), (damaged, 3), (WHOLE, 3)):
        found = outcomes(compiled, payload, records, base_offset, base_ms)
        assert found == outcomes(pure(), payload, records, base_offset, base_ms)


@given(st.lists(FIELDS, max_size=4), NUMBERS, NUMBERS)
def test_they_encode_the_same_bytes_or_refuse_the_same_records(
    compiled: ModuleType, fields: list[Any], base_offset: int, base_ms: int
) -> None:
    records = [Record(*each) for each in fields]
    columns = RecordColumns(*map(list, zip(*records, strict=True))) if records else RecordColumns([], [], [], [], [])
    found = [_encoded(codec, records, columns, base_offset, base_ms) for codec in (compiled, pure())]
    assert found[0] == found[1]


def _encoded(
    codec: ModuleType, records: list[Record], columns: RecordColumns, base_offset: int, base_ms: int
) -> tuple[object, object]:
    return (
        outcome(lambda: codec.encode_records(records, base_ms)),
        outcome(lambda: codec.encode_columns(columns, base_offset, base_ms)),
    )


@given(NUMBERS)
def test_they_encode_the_same_numbers(compiled: ModuleType, number: int) -> None:
    assert _varint(compiled, number) == _varint(pure(), number)


def _varint(codec: ModuleType, number: int) -> bytes | str:
    try:
        encoded: bytes = codec.encode_varint(number)
    except ValueError as error:
        return str(error)
    return encoded
