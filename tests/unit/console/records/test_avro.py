"""Avro: what fastavro writes is read as the same, and what ends or holds that library is a sentence here."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.records.decoding.avro_schemas import avro_schema
from kraft.console.records.decoding.avro_values import avro_value
from kraft.console.records.decoding.limits import CannotDecode
from tests.support.avro_orders import ORDER, written

_PARTS: Final[dict[str, Any]] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "total": st.floats(allow_nan=False, allow_infinity=False),
    "paid": st.booleans(),
    "note": st.none() | st.text(max_size=9),
    "state": st.sampled_from(["NEW", "SENT"]),
    "tags": st.lists(st.text(max_size=5), max_size=4),
    "counts": st.dictionaries(st.text(max_size=5), st.integers(-(2**31), 2**31 - 1), max_size=4),
    "hash": st.binary(min_size=2, max_size=2),
    "states": st.lists(st.sampled_from(["NEW", "SENT"]), max_size=3),
}
_ORDERS = st.recursive(
    st.fixed_dictionaries({**_PARTS, "before": st.none()}),
    lambda each: st.fixed_dictionaries({**_PARTS, "before": each}),
    max_leaves=3,
)


def shown(schema: Any, data: bytes) -> Any:
    return avro_value(avro_schema(msgspec.json.encode(schema).decode()), data)


def _in_json(order: dict[str, Any] | None) -> Any:
    if order is None:
        return None
    return {**order, "hash": f"0x{order['hash'].hex()}", "before": _in_json(order["before"])}


@given(_ORDERS)
def test_what_fastavro_writes_is_read_as_the_same(order: dict[str, Any]) -> None:
    assert shown(ORDER, written(ORDER, order)) == _in_json(order)


@pytest.mark.parametrize(
    ("kind", "logical", "value", "text"),
    [
        ("int", "date", 0, "1970-01-01"),
        ("int", "time-millis", 3_600_001, "01:00:00.001000"),
        ("long", "timestamp-millis", 1_700_000_000_123, "2023-11-14T22:13:20.123000+00:00"),
        ("long", "timestamp-micros", 1, "1970-01-01T00:00:00.000001+00:00"),
        ("long", "local-timestamp-millis", 0, "1970-01-01T00:00:00"),
        ("long", "timestamp-millis", 2**60, 2**60),
        ("string", "uuid", "7b6c", "7b6c"),
        ("bytes", "decimal", b"\xff\x85", "-1.23"),
        ("bytes", "decimal", b"", "0.00"),
    ],
)
def test_logical_types_are_shown_as_what_they_mean(kind: str, logical: str, value: Any, text: Any) -> None:
    data = written(kind, value)
    assert shown({"type": kind, "logicalType": logical, "precision": 9, "scale": 2}, data) == text


def test_a_decimal_is_the_one_that_fastavro_writes() -> None:
    schema = {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3}
    assert shown(schema, written(schema, Decimal("-1234.567"))) == "-1234.567"


def test_types_of_other_schemas_are_known_by_their_names() -> None:
    other = '{"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}'
    schema = '{"type": "record", "name": "User", "fields": [{"name": "home", "type": "shop.Address"}]}'
    assert avro_value(avro_schema(schema, [other]), b"\x04ab") == {"home": {"city": "ab"}}


def _doubled(levels: int) -> Any:
    """Return a record of 2^levels nulls, which takes no byte at all."""
    inner: Any = "null"
    for level in range(levels):
        again = "null" if inner == "null" else inner["name"]
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": again}]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return inner


LIST: Final = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
ITSELF: Final = {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}
MANY: Final = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
"""A count of 2^62."""


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (LIST, b"\x02" * (1 << 20)),
        (ITSELF, b""),
        (_doubled(40), b""),
        ({"type": "array", "items": "null"}, MANY),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\x7f" + b"\x01" * (1 << 20)),
        ({"type": "map", "values": "null"}, MANY + b"\0" * (1 << 20)),
        ("string", MANY),
        ("bytes", b"\x01"),
        ("long", b"\xff" * 20),
        ("long", b"\xff"),
        (["null", "long"], b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ("null", b"left over"),
        ({"type": "fixed", "name": "F", "size": 9}, b"1"),
    ],
)
def test_hostile_bytes_are_a_sentence_within_bounds(schema: Any, data: bytes) -> None:
    begun_s = time.monotonic()
    with pytest.raises(CannotDecode):
        shown(schema, data)
    assert time.monotonic() - begun_s < 5


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "7",
        '"missing"',
        '{"type": "record", "fields": []}',
        '{"type": "record", "name": "R", "fields": [7]}',
        '{"type": "enum", "name": "E", "symbols": 7}',
        '{"type": "fixed", "name": "F", "size": 9999999999}',
        '{"type":' * 200 + '"int"' + "}" * 200,
        "[" * 100_000,
    ],
)
def test_a_schema_that_is_none_is_a_sentence(text: str) -> None:
    with pytest.raises(CannotDecode, match="the registry's schema"):
        avro_schema(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_sentence(data: bytes) -> None:
    try:
        msgspec.json.encode(shown(ORDER, data))
    except CannotDecode:
        return
