"""The largest requests that a client may send: every request of Kafka's protocol, with each of its lists filled.

A list is filled as far as a broker's limits on a request let it: its bytes, and the elements of its lists together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ArrayOf, Field, Fixed, Form, Identifier, Message, Sized, Struct

REQUEST_BYTES: Final = 15 << 20
"""Below the default of `socket.request.max.bytes`."""

ELEMENTS: Final = 16_000
"""Below the elements that a node with that default takes in one request."""

TEXT_LENGTH: Final = 32_000
"""Below the longest text of the protocol."""

PARTITIONS: Final = 200
"""Partitions of a known topic."""

_NAMES: Final = frozenset({"name", "topic", "topic_id"})
"""Fields that say what an element is about. Some have defaults, because other versions name it otherwise."""

ONE_BYTE: Final = 128
"""Numbers from zero that a byte with a sign holds."""

SAME, UNKNOWN, LONG = "same", "unknown", "long"
TEXTS: Final = (SAME, UNKNOWN, LONG)
"""What the elements of a list are called: all by one name that exists, each by another that does not, or both and as
long as possible."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One list of a request, filled with elements."""

    path: tuple[str, ...]
    """Names of the fields that lead to the list; empty for a request without lists."""

    texts: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path) or 'no list'}, {self.texts}"


class LargestRequests:
    """Builds requests with names that exist: of a topic, a group, a transactional id."""

    def __init__(self, known: Mapping[str, str], topic_id: UUID, fixed: Mapping[str, Any]) -> None:
        """`known` has a text for words in the names of fields, the first that is found; `fixed` values of fields."""
        self._known = known
        self._topic_id = topic_id
        self._fixed = fixed

    def shapes(self, kind: type[Message], version: int) -> Iterator[Shape]:
        paths = list(_lists(kind, version)) or [()]
        return (Shape(path, texts) for path in paths for texts in TEXTS)

    def build(self, kind: type[Message], version: int, shape: Shape) -> Message:
        count = _count(kind, version, shape)
        message: Message = self._struct(kind, version, shape, shape.path, count, 0)
        return message

    def _struct(
        self, kind: type[Struct], version: int, shape: Shape, path: tuple[str, ...], count: int, number: int
    ) -> Any:
        values = {}
        for field in kind.fields:
            if version not in field.versions:
                continue
            if path and field.name == path[0]:
                values[field.name] = self._list(field, version, shape, path[1:], count)
            elif field.name in self._fixed:
                values[field.name] = self._fixed[field.name]
            elif field.is_required or isinstance(field.form, ArrayOf) or field.name in _NAMES:
                values[field.name] = self._value(field.form, field, version, shape, number)
        return kind(**values)

    def _list(self, field: Field, version: int, shape: Shape, rest: tuple[str, ...], count: int) -> tuple[Any, ...]:
        assert isinstance(field.form, ArrayOf)
        element = field.form.element
        if rest:
            assert isinstance(element, type)
            return (self._struct(element, version, shape, rest, count, 0),)
        return tuple(self._value(element, field, version, shape, number, in_list=True) for number in range(count))

    def _value(
        self, form: Form, field: Field, version: int, shape: Shape, number: int, *, in_list: bool = False
    ) -> Any:
        match form:
            case Fixed("?"):
                return False
            case Fixed(code):
                # A number of one byte ends before the partitions do.
                return number % (ONE_BYTE if code == "b" else PARTITIONS) if number or in_list else 0
            case Identifier():
                return self._topic_id if shape.texts == SAME else UUID(int=number + 1)
            case Sized.STRING:
                return self._text(field.name, shape, number)
            case Sized():
                return b""
            case ArrayOf(element):
                # What is beside the list, or inside of its elements, has one element.
                return (self._value(element, field, version, shape, number),)
            case _:
                return self._struct(form, version, shape, (), 0, number)

    def _text(self, name: str, shape: Shape, number: int) -> str:
        known = next((text for word, text in self._known.items() if word in name), "text")
        if shape.texts == SAME:
            return known
        unknown = f"{known}-{number}"
        return unknown if shape.texts == UNKNOWN else unknown + "x" * (TEXT_LENGTH - len(unknown))


def _lists(kind: type[Struct], version: int) -> Iterator[tuple[str, ...]]:
    for field in kind.fields:
        if version in field.versions and isinstance(field.form, ArrayOf):
            yield (field.name,)
            element = field.form.element
            if isinstance(element, type) and issubclass(element, Struct):
                yield from ((field.name, *rest) for rest in _lists(element, version))


def _count(kind: type[Struct], version: int, shape: Shape) -> int:
    """Return how many elements the list may have."""
    if not shape.path:
        return 0
    texts = _texts_of_element(kind, version, shape.path)
    if shape.texts == LONG and texts:
        return REQUEST_BYTES // (TEXT_LENGTH * texts)
    elements = _elements(_element(kind, version, shape.path), version)
    beside = _elements(kind, version) + len(shape.path)
    return (ELEMENTS - beside) // elements


def _element(kind: type[Struct], version: int, path: tuple[str, ...]) -> Form:
    form: Form = kind
    for name in path:
        assert isinstance(form, type)
        form = next(field.form for field in form.fields if field.name == name and version in field.versions)
        assert isinstance(form, ArrayOf)
        form = form.element
    return form


def _texts_of_element(kind: type[Struct], version: int, path: tuple[str, ...]) -> int:
    element = _element(kind, version, path)
    if not isinstance(element, type):
        return int(element is Sized.STRING)
    return sum(field.form is Sized.STRING and version in field.versions for field in element.fields)


def _elements(form: Form, version: int) -> int:
    """Return how many elements a value counts for: itself, and one in each of its lists."""
    if not isinstance(form, type):
        return 1
    lists = [field.form for field in form.fields if version in field.versions and isinstance(field.form, ArrayOf)]
    return 1 + sum(_elements(each.element, version) for each in lists)
