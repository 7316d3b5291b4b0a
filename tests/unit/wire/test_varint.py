from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.wire.errors import ProtocolError
from kraft.wire.varint import SMALL_UVARINTS, decode_uvarint, encode_uvarint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_384, "808001"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_seven_bits_a_byte_the_lowest_first(value: int, encoded: str) -> None:
    assert encode_uvarint(value) == bytes.fromhex(encoded)


@given(st.integers(0, 0xFFFFFFFF), st.binary(max_size=3))
def test_what_is_written_is_read_again(value: int, before: bytes) -> None:
    data = before + encode_uvarint(value) + b"behind"
    assert decode_uvarint(memoryview(data), len(before)) == (value, len(data) - len(b"behind"))


def test_the_small_ones_are_at_hand() -> None:
    assert all(encode_uvarint(value) == encoded for value, encoded in enumerate(SMALL_UVARINTS))


@pytest.mark.parametrize("encoded", ["ffffffff10", "8080808080808001", "ffffffffffffffffffff"])
def test_more_than_32_bits_are_refused(encoded: str) -> None:
    with pytest.raises(ProtocolError):
        decode_uvarint(memoryview(bytes.fromhex(encoded)), 0)


def test_the_end_of_the_data_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        decode_uvarint(memoryview(b"\x80"), 0)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_what_does_not_fit_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        encode_uvarint(value)
