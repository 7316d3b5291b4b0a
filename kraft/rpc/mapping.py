"""Converts values to protobuf messages and back, field by field of the same name.

A value is one of Kafka's messages (`kraft/wire/schema`), or a `msgspec.Struct` for what Kafka does not have. Both
functions of a pair of types are generated at its first use, as Kafka's codecs are; a pair that does not have the same
fields raises TypeError then. The fields of one of Kafka's messages are those of its newest version:

- A field that only older versions have is there if the proto file has it.
- Null is an absent field. Where the proto file does not say `optional`, the empty value is null; an array that may be
  both is a message with one repeated field.
- An absent `optional` field that is not nullable has Kafka's default. If that is not the zero value, the field has to
  be `optional`.
- A UUID is 16 bytes. None at all are the UUID that means none.

The types of a Struct's fields are numbers, strings, bytes, booleans, `ErrorCode`, `UUID`, values, also Kafka's,
`T | None` of these (an optional field), `list[T]` and `tuple[T, ...]` of these, and mappings from text to text or to
bytes.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Container, Iterator
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from google.protobuf.message import Message
from msgspec import Struct

from kraft.log.format.record_batch import Buffer
from kraft.model.errors import ErrorCode, error_code, not_unicode
from kraft.rpc.converters import SAME, Converters, ConverterWriter, Descriptor, MappedField, Scalar
from kraft.wire.declaration import ZERO_UUID, ArrayOf, Declared, Field, Form, Identifier
from kraft.wire.versions import VERSION_MAX

Value = TypeVar("Value")
WireMessage = TypeVar("WireMessage", bound=Message)

Parse = Callable[[bytes], Any]
"""Returns the message that was serialized. Raises DecodeError."""

Serialize = Callable[[Any], bytes]


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
    def converters(self) -> Converters:
        """The generated functions: a process uses few of all calls. Raises TypeError if the fields differ."""
        kind: Any = self.value_type
        newest = kind.versions.last if isinstance(kind, Declared) else VERSION_MAX
        return _converters(kind, self.message_type.DESCRIPTOR, newest)

    def to_message(self, value: Value) -> WireMessage:
        """Return the message. Raises a Refusal if a text has no UTF-8."""
        message = self.message_type()
        try:
            self.converters.write(value, message)
        except UnicodeEncodeError as error:
            raise not_unicode(error) from None
        return message

    def write(self, value: Value, message: WireMessage) -> None:
        """Write the value into an existing empty message, such as a field of another one."""
        self.converters.write(value, message)
        message.SetInParent()

    def to_value(self, message: WireMessage) -> Value:
        value: Value = self.converters.read(message)
        return value


@cache
def _converters(kind: Any, descriptor: Descriptor, version: int) -> Converters:
    """Return the functions of a pair of types; `version` is that of the message around it, if it is Kafka's."""
    if isinstance(kind, Declared):
        fields = [*_declared_fields(kind, version, descriptor.fields_by_name)]
    else:
        fields = [*_annotated_fields(kind)]
    names = {each.name for each in fields}
    if names != set(descriptor.fields_by_name):
        differing = ", ".join(sorted(names ^ set(descriptor.fields_by_name)))
        raise TypeError(f"{kind.__name__} and message {descriptor.name} differ in {differing}")
    for each in fields:
        if each.default and not descriptor.fields_by_name[each.name].has_presence:
            raise TypeError(f"{descriptor.name}.{each.name} has to be optional: its default is {each.default!r}")

    def nested(inner: Any, message: Descriptor) -> Converters:
        return _converters(inner, message, version)

    return ConverterWriter(kind, descriptor, nested).converters(fields)


def _uuid_bytes(value: UUID) -> bytes:
    return value.bytes


def _uuid(data: bytes) -> UUID:
    if len(data) != 16:
        raise ValueError(f"an id must have 16 bytes, not {len(data)}")
    return UUID(bytes=data)


# --- Kafka's messages ------------------------------------------------------------------------------------------


def _declared_fields(kind: Declared, version: int, also: Container[str]) -> Iterator[MappedField]:
    for field in kind.fields:
        if version in field.versions or field.name in also:
            yield _declared_field(field, version)


def _declared_field(field: Field, version: int) -> MappedField:
    nullable = version in field.nullable
    has_default = not nullable and not field.is_required and field.default != ZERO_UUID
    default = field.default if has_default else None
    if isinstance(field.form, ArrayOf):
        return MappedField(field.name, _content(field.form.element), tuple, nullable)
    return MappedField(field.name, _content(field.form), None, nullable, default)


def _content(form: Form) -> Scalar | type[Any]:
    if isinstance(form, Identifier):
        return _KAFKA_UUID
    return form if isinstance(form, type) else SAME


def _kafka_uuid_bytes(value: UUID) -> bytes:
    return b"" if value == ZERO_UUID else value.bytes


def _kafka_uuid(data: bytes) -> UUID:
    return _uuid(data) if data else ZERO_UUID


_KAFKA_UUID: Final = Scalar(_kafka_uuid_bytes, _kafka_uuid)

# --- Structs ---------------------------------------------------------------------------------------------------


def _annotated_fields(kind: Any) -> Iterator[MappedField]:
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        yield _annotated_field(name, _without_newtype(hints[name]))


def _annotated_field(name: str, hint: Any) -> MappedField:
    if get_origin(hint) in (list, tuple):
        return MappedField(name, _annotated(_without_newtype(get_args(hint)[0])), get_origin(hint))
    if get_origin(hint) in (dict, abc.Mapping):
        return MappedField(name, SAME, dict)
    if hint != Buffer and (get_origin(hint) is UnionType or NoneType in get_args(hint)):
        (inner,) = (_without_newtype(option) for option in get_args(hint) if option is not NoneType)
        return MappedField(name, _annotated(inner), None, nullable=True)
    return MappedField(name, _annotated(hint))


def _without_newtype(hint: Any) -> Any:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _annotated(hint: Any) -> Scalar | type[Any]:
    """Return how a single value of this type is converted."""
    if isinstance(hint, Declared) or (isinstance(hint, type) and issubclass(hint, Struct)):
        return hint
    if hint is UUID:
        return Scalar(_uuid_bytes, _uuid)
    if hint is ErrorCode:
        return Scalar(int, error_code)
    # Protobuf returns bytes, and accepts any buffer.
    if hint in (int, str, bytes, bool, float) or hint == Buffer:
        return SAME
    raise TypeError(f"no mapping for a field of type {hint!r}")
