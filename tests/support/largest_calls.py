"""The largest messages that a client may send to gRPC's listener: every request, with each of its lists filled.

A list has as many elements as a broker takes, or as many as fit into a message, which a broker refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from tests.support.kafka.largest_requests import LONG, PARTITIONS, REQUEST_BYTES, SAME, TEXT_LENGTH, TEXTS, Shape

# Protobuf's C and Python descriptors have different types.
Descriptor = Any

_BYTES_OF_ENTRY: Final = 16

ELEMENTS: Final = 65_000
"""Below the elements that a node takes in one request."""

ADMIN_ITEMS: Final = 16_000
"""Below what a call of the Admin service may name."""

TOO_MANY: Final = "too many"
"""Texts of a list with as many elements as fit."""


class LargestCalls:
    """Builds messages with names that exist."""

    def __init__(self, known: Mapping[str, str], topic_id: bytes, fixed: Mapping[str, Any]) -> None:
        """As `LargestRequests`."""
        self._known = known
        self._topic_id = topic_id
        self._fixed = fixed

    def shapes(self, kind: Descriptor) -> Iterator[Shape]:
        paths = list(_lists(kind)) or [()]
        return (Shape(path, texts) for path in paths for texts in (*TEXTS, TOO_MANY))

    def build(self, kind: type[Any], shape: Shape) -> Any:
        message = kind()
        self._fill(message, shape, shape.path, 0)
        return message

    def _fill(self, message: Any, shape: Shape, path: tuple[str, ...], number: int) -> None:
        for field in message.DESCRIPTOR.fields:
            if path and field.name == path[0]:
                self._fill_list(message, field, shape, path[1:])
            elif field.name in self._fixed:
                self._set_fixed(message, field, self._fixed[field.name])
            elif not field.containing_oneof and not _is_map(field):
                self._set(message, field, shape, number)

    def _set_fixed(self, message: Any, field: Descriptor, value: Any) -> None:
        """Set the value. None is null, an absent field; an empty list is one already, or a message around it."""
        if value == () and not field.is_repeated:
            getattr(message, field.name).SetInParent()
        elif value is not None and value != ():
            setattr(message, field.name, value)

    def _fill_list(self, message: Any, field: Descriptor, shape: Shape, rest: tuple[str, ...]) -> None:
        if _is_map(field):
            is_text = field.message_type.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING
            size = TEXT_LENGTH if shape.texts == LONG else _BYTES_OF_ENTRY
            fitting = REQUEST_BYTES // size
            entries = range(fitting if shape.texts == TOO_MANY else min(_elements_max(message), fitting))
            getattr(message, field.name).update({self._key(shape, each): "" if is_text else b"" for each in entries})
            return
        if rest:
            inside = getattr(message, field.name)
            self._fill(inside.add() if field.is_repeated else inside, shape, rest, 0)
            return
        self._add(message, field, shape, 0)
        longest_number = 8
        count = REQUEST_BYTES // (message.ByteSize() + longest_number)
        if shape.texts != TOO_MANY:
            count = min(count, _elements_max(message) // _elements(field))
        for number in range(1, count):
            self._add(message, field, shape, number)

    def _add(self, message: Any, field: Descriptor, shape: Shape, number: int) -> None:
        values = getattr(message, field.name)
        if field.message_type is not None:
            self._fill(values.add(), shape, (), number)
        else:
            values.append(self._scalar(field, shape, number, in_list=True))

    def _set(self, message: Any, field: Descriptor, shape: Shape, number: int) -> None:
        if field.is_repeated:
            self._add(message, field, shape, number)
        elif field.message_type is not None:
            self._fill(getattr(message, field.name), shape, (), number)
        else:
            setattr(message, field.name, self._scalar(field, shape, number))

    def _scalar(self, field: Descriptor, shape: Shape, number: int, *, in_list: bool = False) -> Any:
        match field.type:
            case FieldDescriptor.TYPE_BOOL:
                return False
            case FieldDescriptor.TYPE_STRING:
                return self._text(field.name, shape, number)
            case FieldDescriptor.TYPE_BYTES:
                is_id = field.name.endswith(("_id", "_ids"))
                return self._topic_id if is_id else b""
            case FieldDescriptor.TYPE_ENUM:
                return field.enum_type.values[0].number
            case _:
                return number % PARTITIONS if number or in_list else 0

    def _key(self, shape: Shape, number: int) -> str:
        return f"{number}" + "x" * (TEXT_LENGTH if shape.texts == LONG else 0)

    def _text(self, name: str, shape: Shape, number: int) -> str:
        known = next((text for word, text in self._known.items() if word in name), "text")
        if shape.texts == SAME:
            return known
        unknown = f"{known}-{number}"
        return unknown + "x" * (TEXT_LENGTH - len(unknown)) if shape.texts == LONG else unknown


def _lists(kind: Descriptor) -> Iterator[tuple[str, ...]]:
    for field in kind.fields:
        if field.is_repeated:
            yield (field.name,)
        # A list that may be null is a message around it.
        if field.message_type is not None and not _is_map(field):
            yield from ((field.name, *rest) for rest in _lists(field.message_type))


def _elements_max(message: Any) -> int:
    return ADMIN_ITEMS if message.DESCRIPTOR.file.name.endswith("admin.proto") else ELEMENTS


def _elements(field: Descriptor) -> int:
    """Return how many elements one of a list counts for: itself, and one in each of its lists."""
    kind = field.message_type
    lists = [] if kind is None else [each for each in kind.fields if each.is_repeated and not _is_map(each)]
    return 1 + sum(map(_elements, lists))


def _is_map(field: Descriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)
