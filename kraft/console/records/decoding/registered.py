"""Bytes that name their schema in a registry, as Confluent's serializers write them: 0, the id in 4 bytes, the value.

Ids in a header of the record, which newer serializers write if they are told to, are not supported.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from kraft.console.records.decoding.avro_values import avro_value
from kraft.console.records.decoding.limits import Budget, CannotDecode, json_value, plain
from kraft.console.records.decoding.protobuf_schemas import ProtobufSchema
from kraft.console.records.decoding.protobuf_values import message_places, protobuf_value
from kraft.console.records.decoding.registry import JsonSchema, Registry
from kraft.model.printable import counted

REGISTERED_PREFIX: Final = b"\0"
_HEADER_BYTES: Final = 5


class RegisteredValue(Struct, frozen=True, kw_only=True):
    format: str
    """avro, protobuf or json."""

    value: Any
    text: str = ""
    """Of JSON, as it was sent."""

    note: str = ""


def registered(data: bytes, registry: Registry | None) -> RegisteredValue:
    """Return the value by the schema that its bytes name. Blocks, for the registry. Raises CannotDecode."""
    if registry is None:
        raise CannotDecode("this cluster has no schema registry: set cluster.NAME.schema.registry.url")
    if len(data) < _HEADER_BYTES or not data.startswith(REGISTERED_PREFIX):
        raise CannotDecode("it does not begin with the id of a schema (a byte 0, and 4 bytes)")
    schema = registry.schema(int.from_bytes(data[1:_HEADER_BYTES], "big"))
    if isinstance(schema, JsonSchema):
        return _json(data[_HEADER_BYTES:])
    if isinstance(schema, ProtobufSchema):
        places, start = message_places(data, _HEADER_BYTES)
        value, unknown = protobuf_value(schema.message(places), data, start)
        note = f"{counted(unknown, 'field')} that the schema does not have: not shown" if unknown else ""
        return RegisteredValue(format="protobuf", value=value, note=note)
    return RegisteredValue(format="avro", value=avro_value(schema, data, _HEADER_BYTES))


def _json(data: bytes) -> RegisteredValue:
    try:
        return RegisteredValue(format="json", value=plain(json_value(data), Budget()), text=data.decode())
    except CannotDecode as error:
        raise CannotDecode(f"its schema is of JSON, and the value is none: {error}") from None
