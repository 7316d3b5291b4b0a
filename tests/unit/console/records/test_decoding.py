"""Bytes to what people read: which format fits, and what hostile bytes may not do."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.records.decoding import DECODED_BYTES_MAX, FORMATS, decode
from kraft.console.records.decoding.limits import Budget, CannotDecode, plain

MIB = 1 << 20
WITHIN_S = 5.0
"""Far above what the bounds let any of these take, for busy machines."""


@pytest.mark.parametrize(
    ("data", "chosen", "format_", "text"),
    [
        (b'{"total": 7}', "", "json", '{"total": 7}'),
        (b'{"total": 7}', "text", "text", '{"total": 7}'),
        (b"{", "json", "text", "{"),
        (b"caf\xc3\xa9", "", "text", "café"),
        (b"\xff\xfe", "", "hex", "ff fe"),
        (b"\xff\xfe", "text", "hex", "ff fe"),
        (b"a\x00b", "", "hex", "61 00 62"),
        (b"ab", "hex", "hex", "61 62"),
        (b"\x81\xa1a\xc4\x02\x00\xff", "", "msgpack", '{"a":"0x00ff"}'),
        (b"\xcd\x01\x00", "", "hex", "cd 01 00"),
        (b"\xcd\x01\x00", "msgpack", "msgpack", "256"),
        (b"\x81\x01\x02", "", "msgpack", '{"1":2}'),
        (b"x", "colour", "text", "x"),
        (None, "", "null", "null"),
        (b"", "", "text", ""),
    ],
)
def test_bytes_are_shown_in_the_first_format_that_fits(
    data: bytes | None, chosen: str, format_: str, text: str
) -> None:
    found = decode(data, chosen)
    assert (found.format, found.text) == (format_, text)


def test_a_chosen_format_that_does_not_fit_says_why() -> None:
    assert decode(b"{", "json").problem.startswith("not JSON: ")
    assert decode(b"\x81", "msgpack").problem == "not MessagePack: input data was truncated"
    assert decode(b'{"\xff": 1}', "json").problem == "not JSON: a name in it is not UTF-8"
    assert decode(b"\x81\xa1\xff\x01", "msgpack").problem == "not MessagePack: a text in it is not UTF-8"
    assert decode(b"x", "avro").problem == (
        "not Avro: this cluster has no schema registry: set cluster.NAME.schema.registry.url"
    )


HOSTILE = {
    "deep json": b"[" * MIB,
    "deep objects": b'{"a":' * (MIB // 5),
    "closed, deep": b"[" * 900 + b"]" * 900,
    "many objects": b"[" + b"{}," * (MIB // 3 - 2) + b"{}]",
    "many numbers": b"[" + b"1," * (MIB // 2 - 2) + b"1]",
    "long number": b"1" * MIB,
    "large exponent": b"1e999999999",
    "deep msgpack": b"\x91" * MIB,
    "declared array": b"\xdd\xff\xff\xff\xff",
    "declared arrays": b"\xdd\x00\x40\x00\x00" * 900,
    "declared map": b"\xdf\xff\xff\xff\xff",
    "declared text": b"\xdb\xff\xff\xff\xff",
    "many empty maps": b"\xdd\x00\x0f\xff\xfa" + b"\x80" * (MIB - 6),
    "16 MiB of json": b"[" + b"1," * (8 * MIB) + b"1]",
    "16 MiB of bytes": b"\xff" * (16 * MIB),
    "16 MiB of text": "é".encode() * (8 * MIB),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chosen", ["", "json", "msgpack", "text"])
def test_hostile_bytes_are_decoded_within_bounds(name: str, chosen: str) -> None:
    begun_s = time.monotonic()
    found = decode(HOSTILE[name], chosen)
    assert time.monotonic() - begun_s < WITHIN_S
    assert len(found.text) <= DECODED_BYTES_MAX
    if len(HOSTILE[name]) > DECODED_BYTES_MAX:
        assert (found.value, "is not decoded" in found.problem) == (None, True)


@given(st.binary(max_size=200), st.sampled_from(["", *FORMATS]))
def test_any_bytes_are_shown_somehow_and_as_json(data: bytes, chosen: str) -> None:
    found = decode(data, chosen)
    assert found.format in FORMATS
    msgspec.json.encode(found)


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=9)
)
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(max_size=5), each, max_size=4)
)


@given(VALUES)
def test_what_msgpack_can_say_is_said_in_json(value: Any) -> None:
    found = decode(msgspec.msgpack.encode(value), "msgpack")
    assert found.format == "msgpack"
    assert msgspec.json.decode(found.text) == plain(value, Budget())


@given(VALUES)
def test_json_is_itself(value: Any) -> None:
    value = plain(value, Budget())
    found = decode(msgspec.json.encode(value), "json")
    assert (found.value, found.problem) == (msgspec.json.decode(msgspec.json.encode(value)), "")


def test_what_json_does_not_have_is_text() -> None:
    assert plain([float("nan"), float("inf"), 2**70, b"\1"], Budget()) == ["nan", "inf", str(2**70), "0x01"]


def test_a_budget_ends() -> None:
    with pytest.raises(CannotDecode, match="more values"):
        plain([None] * 200_000, Budget())
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(CannotDecode, match="levels deep"):
        plain(deep, Budget())
