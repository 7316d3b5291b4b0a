"""The number of elements in a value's lists: what its conversion into a message takes. Many bytes count as elements."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterator
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct

from kraft.wire.declaration import ArrayOf, Declared, Sized

ELEMENT_BYTES: Final = 2 * 1024
"""So many bytes in a field of one of Kafka's messages count as an element: copying them takes as long."""


class _ValueField(NamedTuple):
    name: str
    is_list: bool
    has_lists: bool
    """True if the values in the field have lists themselves."""

    is_bytes: bool = False


def count_value_elements(value: Any, enough: int) -> int:
    """Return how many elements the lists of a value have, with those inside of others; above `enough` not all."""
    total = 0
    kind: Any = type(value)
    for field in _fields(kind):
        content = getattr(value, field.name)
        if content is None:
            continue
        if field.is_bytes:
            total += len(content) // ELEMENT_BYTES
        if field.is_list:
            total += len(content)
        if field.has_lists:
            for each in content if field.is_list else (content,):
                if total > enough:
                    return total
                total += count_value_elements(each, enough - total)
    return total


@cache
def _fields(kind: Any) -> tuple[_ValueField, ...]:
    """Return the fields that are lists or bytes, or have such."""
    if isinstance(kind, Declared):
        return tuple(_declared_fields(kind))
    found = []
    for name, hint in get_type_hints(kind).items():
        (inner,) = [each for each in get_args(hint) if each is not NoneType] if NoneType in get_args(hint) else [hint]
        is_list = get_origin(inner) in (list, tuple, dict, abc.Mapping)
        nested = get_args(inner)[0] if is_list else inner
        has_lists = isinstance(nested, type) and issubclass(nested, Struct) and bool(_fields(nested))
        if is_list or has_lists:
            found.append(_ValueField(name, is_list, has_lists))
    return tuple(found)


def _declared_fields(kind: Declared) -> Iterator[_ValueField]:
    """Yield those of one of Kafka's messages."""
    for field in kind.fields:
        is_list = isinstance(field.form, ArrayOf)
        nested = field.form.element if isinstance(field.form, ArrayOf) else field.form
        has_lists = isinstance(nested, Declared) and bool(_fields(nested))
        is_bytes = field.form is Sized.BYTES
        if is_list or has_lists or is_bytes:
            yield _ValueField(field.name, is_list, has_lists, is_bytes)
