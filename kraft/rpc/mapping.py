"""Converts values (`msgspec.Struct`) to protobuf messages and back, field by field of the same name.

A mapping is built once, at its first use, and raises TypeError if the two do not have the same fields. Supported
field types: numbers, strings, bytes, booleans, `ErrorCode`, other `IntEnum`s, `UUID` (16 bytes), values, `T | None` of
these (an optional field), `list[T]` and `tuple[T, ...]` of these, and mappings from text to text or bytes.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from google.protobuf.message import Message
from msgspec import Struct

from kraft.log.format.record_batch import Buffer
from kraft.model.errors import ErrorCode, error_code

Value = TypeVar("Value")
WireMessage = TypeVar("WireMessage", bound=Message)

# Protobuf's C and Python descriptors have different types; only their field names are used here.
Descriptor = Any

# A writer sets a message's field from a value, a reader returns the field's value.
Writer = Callable[[Any, Any], None]
Reader = Callable[[Any], Any]


class Mapping(Generic[Value, WireMessage]):
    """Mapping between one type of values and one message type."""

    def __init__(self, value_type: type[Value], message_type: type[WireMessage]) -> None:
        self.value_type = value_type
        self.message_type = message_type

    @property
    def parse(self) -> Callable[[bytes], WireMessage]:
        return self.message_type.FromString

    @property
    def serialize(self) -> Callable[[WireMessage], bytes]:
        return self.message_type.SerializeToString

    @cached_property
    def fields(self) -> list[tuple[str, Writer, Reader]]:
        """Name, writer and reader of each field. Built at the first use: a process uses few of all calls."""
        return _fields_of(self.value_type, self.message_type.DESCRIPTOR)

    def to_message(self, value: Value) -> WireMessage:
        message = self.message_type()
        self.write(value, message)
        return message

    def write(self, value: Value, message: WireMessage) -> None:
        """Write the value into an existing empty message, such as a field of another one."""
        for _, write, _ in self.fields:
            write(value, message)
        message.SetInParent()

    def to_value(self, message: WireMessage) -> Value:
        return self.value_type(**{name: read(message) for name, _, read in self.fields})


def _fields_of(value_type: type[Any], descriptor: Descriptor) -> list[tuple[str, Writer, Reader]]:
    hints = get_type_hints(value_type)
    names = value_type.__struct_fields__
    if set(names) != set(descriptor.fields_by_name):
        differing = sorted(set(names) ^ set(descriptor.fields_by_name))
        raise TypeError(f"{value_type.__name__} and message {descriptor.name} differ in {', '.join(differing)}")
    return [(name, *_field(name, hints[name], descriptor)) for name in names]


def _field(name: str, hint: Any, descriptor: Descriptor) -> tuple[Writer, Reader]:
    hint = _without_newtype(hint)
    nested = descriptor.fields_by_name[name].message_type
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _nested_field(name, hint, nested)
    if get_origin(hint) in (list, tuple):
        return _list_field(name, get_origin(hint), _without_newtype(get_args(hint)[0]), nested)
    if get_origin(hint) in (dict, abc.Mapping):
        return _map_field(name)
    if hint == Buffer:
        # Protobuf returns bytes and accepts any buffer.
        return _scalar_field(name, *_scalar(bytes))
    if get_origin(hint) is UnionType or NoneType in get_args(hint):
        (inner,) = (_without_newtype(option) for option in get_args(hint) if option is not NoneType)
        if isinstance(inner, type) and issubclass(inner, Struct):
            return _optional_nested_field(name, *_nested_field(name, inner, nested))
        return _optional_field(name, *_scalar(inner))
    return _scalar_field(name, *_scalar(hint))


def _without_newtype(hint: Any) -> Any:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _identity(value: Any) -> Any:
    return value


def _uuid_bytes(value: UUID) -> bytes:
    return value.bytes


def _uuid(data: bytes) -> UUID:
    if len(data) != 16:
        raise ValueError(f"an id must have 16 bytes, not {len(data)}")
    return UUID(bytes=data)


def _scalar(hint: Any) -> tuple[Reader, Reader]:
    """Return the functions that encode and decode one value."""
    if hint is UUID:
        return _uuid_bytes, _uuid
    if hint is ErrorCode:
        return int, error_code
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return int, hint
    if hint in (int, str, bytes, bool, float):
        return _identity, _identity
    raise TypeError(f"no mapping for a field of type {hint!r}")


def _scalar_field(name: str, encode: Reader, decode: Reader) -> tuple[Writer, Reader]:
    def write(value: Any, message: Any) -> None:
        setattr(message, name, encode(getattr(value, name)))

    def read(message: Any) -> Any:
        return decode(getattr(message, name))

    return write, read


def _optional_field(name: str, encode: Reader, decode: Reader) -> tuple[Writer, Reader]:
    def write(value: Any, message: Any) -> None:
        content = getattr(value, name)
        if content is not None:
            setattr(message, name, encode(content))

    def read(message: Any) -> Any:
        return decode(getattr(message, name)) if message.HasField(name) else None

    return write, read


def _nested_field(name: str, value_type: type[Any], descriptor: Descriptor) -> tuple[Writer, Reader]:
    fields = _fields_of(value_type, descriptor)

    def write(value: Any, message: Any) -> None:
        inner, target = getattr(value, name), getattr(message, name)
        for _, write_field, _ in fields:
            write_field(inner, target)
        target.SetInParent()

    def read(message: Any) -> Any:
        inner = getattr(message, name)
        return value_type(**{field: read_field(inner) for field, _, read_field in fields})

    return write, read


def _optional_nested_field(name: str, write_content: Writer, read_content: Reader) -> tuple[Writer, Reader]:
    def write(value: Any, message: Any) -> None:
        if getattr(value, name) is not None:
            write_content(value, message)

    def read(message: Any) -> Any:
        return read_content(message) if message.HasField(name) else None

    return write, read


def _list_field(name: str, list_type: type[Any], item_type: Any, descriptor: Descriptor) -> tuple[Writer, Reader]:
    if not isinstance(item_type, type) or not issubclass(item_type, Struct):
        encode, decode = _scalar(item_type)

        def write_items(value: Any, message: Any) -> None:
            getattr(message, name).extend(map(encode, getattr(value, name)))

        def read_items(message: Any) -> Any:
            return list_type(map(decode, getattr(message, name)))

        return write_items, read_items

    fields = _fields_of(item_type, descriptor)

    def write(value: Any, message: Any) -> None:
        target = getattr(message, name)
        for item in getattr(value, name):
            added = target.add()
            for _, write_field, _ in fields:
                write_field(item, added)

    def read(message: Any) -> Any:
        return list_type(
            [
                item_type(**{field: read_field(item) for field, _, read_field in fields})
                for item in getattr(message, name)
            ]
        )

    return write, read


def _map_field(name: str) -> tuple[Writer, Reader]:
    def write(value: Any, message: Any) -> None:
        getattr(message, name).update(getattr(value, name))

    def read(message: Any) -> Any:
        return dict(getattr(message, name))

    return write, read
