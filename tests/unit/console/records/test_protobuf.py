"""Protobuf: what the library writes is read as the same, within bounds that the library does not have."""

from __future__ import annotations

import base64
import time
from typing import Any, Final

import msgspec
import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from kraft.console.records.decoding.limits import CannotDecode
from kraft.console.records.decoding.protobuf_schemas import ProtobufSchema
from kraft.console.records.decoding.protobuf_values import message_places, protobuf_value
from tests.support.protobuf_orders import Order, field, order_file, text_of

SCHEMA: Final = ProtobufSchema(text_of(order_file()), {})
ORDER: Final = SCHEMA.message([0])


_PARTS: Final[dict[str, Any]] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(-(2**31), 2**31 - 1),
    "unsigned": st.integers(0, 2**64 - 1),
    "fixed": st.integers(-(2**31), 2**31 - 1),
    "total": st.floats(allow_nan=False, allow_infinity=False),
    "paid": st.booleans(),
    "note": st.text(max_size=9),
    "state": st.sampled_from([0, 1, 7]),
    "counts": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5),
    "lines": st.lists(st.fixed_dictionaries({"sku": st.text(max_size=5)}), max_size=3),
    "tags": st.dictionaries(st.integers(-9, 9), st.text(max_size=5), max_size=3),
}


@given(st.fixed_dictionaries({}, optional=_PARTS))
def test_what_the_library_writes_is_read_as_the_same(parts: dict[str, Any]) -> None:
    message = Order(**parts, before=Order(**parts))
    found, unknown = protobuf_value(ORDER, message.SerializeToString())
    expected = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert unknown == 0
    assert _as_protobuf_says(found) == expected


def _as_protobuf_says(value: dict[str, Any]) -> dict[str, Any]:
    """Return it as ProtoJSON has it: long numbers as text, bytes in base64."""
    found = {**value, "id": str(value["id"]), "unsigned": str(value["unsigned"]), "raw": ""}
    if "before" in found:
        found["before"] = _as_protobuf_says(found["before"])
    return found


def test_well_known_types_are_shown_as_what_they_mean() -> None:
    message = Order(raw=b"\0\xff")
    message.at.FromJsonString("2023-11-14T22:13:20.5Z")
    message.extra.update({"a": [1, None, {"b": "c"}]})
    message.most.value = 7
    found, _ = protobuf_value(ORDER, message.SerializeToString())
    assert (found["at"], found["raw"], found["most"]) == ("2023-11-14T22:13:20.500000+00:00", "0x00ff", 7)
    assert found["extra"] == {"a": [1.0, None, {"b": "c"}]}


def test_the_message_is_the_one_that_the_record_names() -> None:
    assert message_places(b"\0rest", 0) == ([0], 1)
    assert message_places(b"\x04\0\0rest", 0) == ([0, 0], 3)
    assert SCHEMA.message([0, 0]).full_name == "shop.Order.Line"
    for places in ([1], [0, 9], [-1]):
        with pytest.raises(CannotDecode, match="names a message"):
            SCHEMA.message(places)
    with pytest.raises(CannotDecode):
        message_places(b"\xfe\xff\xff\x7f", 0)


def test_files_import_others() -> None:
    main = FileDescriptorProto(
        name="x",
        dependency=["shop/order.proto", "confluent/meta.proto"],
        message_type=[
            DescriptorProto(name="Box", field=[field("order", 1, FieldDescriptorProto.TYPE_MESSAGE, of=".shop.Order")])
        ],
    )
    box = ProtobufSchema(text_of(main), {"shop/order.proto": text_of(order_file())}).message([0])
    found, _ = protobuf_value(box, b"\x0a\x02\x08\x07")
    assert found["order"]["id"] == 7


@pytest.mark.parametrize(
    "text",
    [
        "syntax = 'proto3'; message A {}",
        base64.b64encode(b"\xff\xff").decode(),
        text_of(FileDescriptorProto(dependency=["missing.proto"])),
        text_of(FileDescriptorProto(message_type=[DescriptorProto(name="A"), DescriptorProto(name="A")])),
        text_of(FileDescriptorProto(dependency=["kraft-console-main.proto"])),
    ],
)
def test_a_schema_that_is_none_is_a_sentence(text: str) -> None:
    with pytest.raises(CannotDecode, match="registry"):
        ProtobufSchema(text, {})


def test_fields_that_the_schema_does_not_have_are_counted_and_not_shown() -> None:
    line = SCHEMA.message([0, 0])
    # A number, 8 bytes, text, a group that holds a number, 4 bytes.
    data = b"\x10\x07" + b"\x19" + b"8" * 8 + b"\x22\x06secret" + b"\x2b\x08\x01\x2c" + b"\x35" + b"4" * 4
    found, unknown = protobuf_value(line, data)
    assert (found, unknown) == ({"sku": ""}, 5)


def test_of_a_oneof_the_last_one_counts() -> None:
    struct = struct_pb2.Value(string_value="first")
    data = struct.SerializeToString() + struct_pb2.Value(bool_value=True).SerializeToString()
    assert protobuf_value(struct_pb2.Value.DESCRIPTOR, data) == (True, 0)


def test_messages_of_many_fields_are_read_within_bounds() -> None:
    """Two bytes are a message with 5,000 fields, of which none is there."""
    fields = [field(f"f{number}", number, FieldDescriptorProto.TYPE_INT32) for number in range(1, 5_000)]
    for each in fields:
        each.oneof_index = 0
    fields.append(field("m", 5_000, FieldDescriptorProto.TYPE_MESSAGE, repeated=True, of=".Wide"))
    wide = DescriptorProto(name="Wide", field=fields)
    wide.oneof_decl.add(name="one")
    file = FileDescriptorProto(name="w", syntax="proto3", message_type=[wide])
    message = ProtobufSchema(text_of(file), {}).message([0])
    begun_s = time.monotonic()
    for data in (b"\xc2\xb8\x02\x00" * (MIB // 4), b"\x08\x01\x10\x01" * (MIB // 4)):
        with pytest.raises(CannotDecode, match="more values"):
            protobuf_value(message, data)
    assert time.monotonic() - begun_s < 10


MIB: Final = 1 << 20


@pytest.mark.parametrize(
    "data",
    [
        b"\x62\x00" * (MIB // 2),
        b"\x52\xff\xff\x3f" + b"\x01" * (MIB - 1),
        b"\x5a" * MIB,
        b"\x0b" * MIB,
        b"\x7b" * MIB,
        b"\x10\x07" * (MIB // 2),
        b"\xff" * MIB,
        b"\x3a\xff\xff\xff\xff\x0f",
        b"\x5a\x05\x08",
        b"\x08",
        b"\x0a\x01x",
        b"\x00",
        b"\x0c",
    ],
)
def test_hostile_bytes_are_a_sentence_within_bounds(data: bytes) -> None:
    begun_s = time.monotonic()
    with pytest.raises(CannotDecode):
        protobuf_value(ORDER, data)
    assert time.monotonic() - begun_s < 5


def _nested(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        length, size = b"", len(data)
        while size >= 0x80:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        data = b"\x5a" + length + bytes([size]) + data
    return data


def test_messages_are_read_down_to_a_depth() -> None:
    protobuf_value(ORDER, _nested(60))
    with pytest.raises(CannotDecode, match="levels deep"):
        protobuf_value(ORDER, _nested(10_000))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_sentence(data: bytes) -> None:
    try:
        msgspec.json.encode(protobuf_value(ORDER, data)[0])
    except CannotDecode:
        return
