"""Messages of Protobuf by their descriptors, as JSON can say them.

The wire is read here and not by the library: for a message of a thousand fields, that reserves the memory of all of
them for each two bytes that say "an empty message". Fields that the schema does not have are counted and not shown:
no mask could name them. Source: protobuf.dev, "Encoding" and "ProtoJSON Format"; bytes are in hexadecimal here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from kraft.console.records.decoding.limits import Budget, CannotDecode, hexadecimal, number

_VARINT_BYTES_MAX: Final = 10
_64_BITS: Final = (1 << 64) - 1
_TOO_SHORT: Final = "the bytes end before the message does"
_NO_MESSAGE: Final = "it is no message of Protobuf"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_VARINT, _FIXED64, _LENGTH, _GROUP, _END_OF_GROUP, _FIXED32 = range(6)


class Wire:
    """A place in the bytes of a message, and what it may still take."""

    def __init__(self, data: bytes, start: int, budget: Budget) -> None:
        self.budget = budget
        self._data = data
        self.at = start
        self.end = len(data)
        self.unknown = 0
        self._implicit: dict[str, list[FieldDescriptor]] = {}

    def implicit_fields(self, message: Descriptor) -> list[FieldDescriptor]:
        """Return the fields that have a value although no byte says so: looked for once, as messages have many."""
        name = message.full_name
        if name not in self._implicit:
            self._implicit[name] = [each for each in message.fields if not each.has_presence]
        return self._implicit[name]

    def varint(self) -> int:
        found = shift = 0
        for each in self._data[self.at : min(self.at + _VARINT_BYTES_MAX, self.end)]:
            self.at += 1
            found |= (each & 0x7F) << shift
            if each < 0x80:
                return found & _64_BITS
            shift += 7
        raise CannotDecode(_TOO_SHORT)

    def take(self, size_bytes: int) -> bytes:
        if size_bytes > self.end - self.at:
            raise CannotDecode(_TOO_SHORT)
        begin, self.at = self.at, self.at + size_bytes
        return self._data[begin : self.at]

    def scalar(self, wire_type: int) -> Any:
        """Return what stands there as the wire has it: a number or bytes. Raises CannotDecode."""
        match wire_type:
            case 0:
                return self.varint()
            case 1:
                return self.take(8)
            case 2:
                return self.take(self.varint())
            case 5:
                return self.take(4)
            case _:
                raise CannotDecode(_NO_MESSAGE)

    def skip(self, wire_type: int, field_number: int) -> None:
        self.budget.spend()
        if wire_type != _GROUP:
            self.scalar(wire_type)
            return
        self.budget.enter()
        while True:
            inner, inner_type = _tag(self)
            if inner_type == _END_OF_GROUP:
                if inner != field_number:
                    raise CannotDecode(_NO_MESSAGE)
                break
            self.skip(inner_type, inner)
        self.budget.leave()


def _tag(wire: Wire) -> tuple[int, int]:
    tag = wire.varint()
    if not tag >> 3:
        raise CannotDecode(_NO_MESSAGE)
    return tag >> 3, tag & 7


def message_places(data: bytes, start: int) -> tuple[list[int], int]:
    """Return the place of the message among those of its schema, and where its bytes begin. Raises CannotDecode.

    Source: Confluent's wire format: a count and as many indexes, in zigzag varint form; 0 alone is the first message.
    """
    wire = Wire(data, start, Budget())
    count = _zigzag(wire.varint())
    if not 0 <= count <= 64:
        raise CannotDecode("the place of its message in the schema cannot be read")
    return [_zigzag(wire.varint()) for _ in range(count)] or [0], wire.at


def protobuf_value(message: Descriptor, data: bytes, start: int = 0) -> tuple[Any, int]:
    """Return the message and the count of fields that its schema does not have. Raises CannotDecode."""
    wire = Wire(data, start, Budget())
    return _message(wire, message, wire.end, 0), wire.unknown


def _message(wire: Wire, message: Descriptor, end: int, group: int) -> Any:
    """Read until the end, or until the group ends that has this number."""
    budget = wire.budget
    budget.spend()
    budget.enter()
    outer_end, wire.end = wire.end, end
    found: dict[str, Any] = {}
    of_oneofs: dict[str, str] = {}
    is_open = bool(group)
    while wire.at < wire.end:
        field_number, wire_type = _tag(wire)
        if wire_type == _END_OF_GROUP and field_number == group:
            is_open = False
            break
        field = message.fields_by_number.get(field_number)
        if field is None:
            wire.skip(wire_type, field_number)
            wire.unknown += 1
        else:
            _read_field(wire, field, wire_type, found)
            if field.containing_oneof is not None:
                # The last one counts.
                before = of_oneofs.get(field.containing_oneof.name, field.name)
                if before != field.name:
                    found.pop(before, None)
                of_oneofs[field.containing_oneof.name] = field.name
    if is_open:
        raise CannotDecode(_TOO_SHORT)
    wire.end = outer_end
    budget.leave()
    known = _WELL_KNOWN.get(message.full_name)
    _add_defaults(wire, message, found)
    try:
        return found if known is None else known(found)
    except (KeyError, TypeError):
        # A schema of somebody's own under a well-known name.
        return found


def _add_defaults(wire: Wire, message: Descriptor, found: dict[str, Any]) -> None:
    """Add fields that have a value although no byte says so: a filter for 0 finds a 0."""
    for field in wire.implicit_fields(message):
        wire.budget.spend(len(field.name))
        if field.name in found:
            continue
        if field.is_repeated:
            found[field.name] = {} if _is_map(field) else []
        elif field.enum_type is not None:
            found[field.name] = _enum(field, field.default_value)
        else:
            found[field.name] = hexadecimal(b"") if field.type == FieldDescriptor.TYPE_BYTES else field.default_value


def _read_field(wire: Wire, field: FieldDescriptor, wire_type: int, found: dict[str, Any]) -> None:
    wire.budget.spend(len(field.name))
    if _is_map(field):
        entry = _value(wire, field, wire_type)
        key = entry.get("key", "")
        found.setdefault(field.name, {})[str(key).lower() if isinstance(key, bool) else str(key)] = entry.get("value")
    elif not field.is_repeated:
        # The last one counts. Pieces of one message are not put together: no serializer writes them.
        found[field.name] = _value(wire, field, wire_type)
    elif wire_type == _LENGTH and field.type in _SCALARS:
        end = wire.varint() + wire.at
        if end > wire.end:
            raise CannotDecode(_TOO_SHORT)
        items, expected, before_end = found.setdefault(field.name, []), _WIRE_TYPES[field.type], wire.end
        wire.end = end
        while wire.at < end:
            items.append(_value(wire, field, expected))
        wire.end = before_end
    else:
        found.setdefault(field.name, []).append(_value(wire, field, wire_type))


def _is_map(field: FieldDescriptor) -> bool:
    entry = field.message_type
    return field.is_repeated and entry is not None and bool(entry.GetOptions().map_entry)


def _value(wire: Wire, field: FieldDescriptor, wire_type: int) -> Any:
    if wire_type != _WIRE_TYPES[field.type]:
        raise CannotDecode("a field is of another type than in the schema")
    if field.message_type is not None:
        if wire_type == _GROUP:
            return _message(wire, field.message_type, wire.end, field.number)
        end = wire.varint() + wire.at
        if end > wire.end:
            raise CannotDecode(_TOO_SHORT)
        return _message(wire, field.message_type, end, 0)
    raw = wire.scalar(wire_type)
    wire.budget.spend(2 * len(raw) if isinstance(raw, bytes) else 0)
    if field.enum_type is not None:
        return _enum(field, _signed(raw, 32))
    return _SCALARS.get(field.type, _TEXTS.get(field.type, hexadecimal))(raw)


def _enum(field: FieldDescriptor, value: int) -> Any:
    assert field.enum_type is not None
    known = field.enum_type.values_by_number.get(value)
    return value if known is None else known.name


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _fixed(form: str) -> Callable[[bytes], Any]:
    return lambda raw: number(struct.unpack(form, raw)[0])


_SCALARS: Final[Mapping[int, Callable[[Any], Any]]] = {
    FieldDescriptor.TYPE_DOUBLE: _fixed("<d"),
    FieldDescriptor.TYPE_FLOAT: _fixed("<f"),
    FieldDescriptor.TYPE_INT64: lambda raw: _signed(raw, 64),
    FieldDescriptor.TYPE_UINT64: lambda raw: raw,
    FieldDescriptor.TYPE_INT32: lambda raw: _signed(raw, 32),
    FieldDescriptor.TYPE_FIXED64: _fixed("<Q"),
    FieldDescriptor.TYPE_FIXED32: _fixed("<I"),
    FieldDescriptor.TYPE_BOOL: bool,
    FieldDescriptor.TYPE_UINT32: lambda raw: raw & 0xFFFF_FFFF,
    FieldDescriptor.TYPE_ENUM: lambda raw: raw,
    FieldDescriptor.TYPE_SFIXED32: _fixed("<i"),
    FieldDescriptor.TYPE_SFIXED64: _fixed("<q"),
    FieldDescriptor.TYPE_SINT32: lambda raw: _signed(_zigzag(raw & 0xFFFF_FFFF), 32),
    FieldDescriptor.TYPE_SINT64: lambda raw: _signed(_zigzag(raw), 64),
}
"""Those that may be packed."""

_TEXTS: Final[Mapping[int, Callable[[Any], Any]]] = {
    FieldDescriptor.TYPE_STRING: lambda raw: raw.decode("utf-8", "replace"),
}

_64: Final = (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64)
_32: Final = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32)
_WIRE_TYPES: Final[Mapping[int, int]] = {
    **dict.fromkeys(_SCALARS, _VARINT),
    **dict.fromkeys(_64, _FIXED64),
    **dict.fromkeys(_32, _FIXED32),
    FieldDescriptor.TYPE_STRING: _LENGTH,
    FieldDescriptor.TYPE_BYTES: _LENGTH,
    FieldDescriptor.TYPE_MESSAGE: _LENGTH,
    FieldDescriptor.TYPE_GROUP: _GROUP,
}


# --- well-known types ----------------------------------------------------------------------------------------------


def _timestamp(found: dict[str, Any]) -> Any:
    try:
        since = timedelta(seconds=found["seconds"], microseconds=found["nanos"] // 1_000)
        return (_EPOCH + since).isoformat()
    except OverflowError:
        return found


def _duration(found: dict[str, Any]) -> str:
    return f"{found['seconds'] + found['nanos'] / 1_000_000_000:g}s"


def _any_json(found: dict[str, Any]) -> Any:
    """Return the value of a google.protobuf.Value, which is one of several."""
    return next((each for name, each in found.items() if name != "null_value"), None)


_WELL_KNOWN: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": lambda found: found["fields"],
    "google.protobuf.ListValue": lambda found: found["values"],
    "google.protobuf.Value": _any_json,
    **{
        f"google.protobuf.{each}Value": lambda found: found["value"]
        for each in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
    },
}
