"""The number of elements in a message's lists: what its conversion into a value takes, in time and memory."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

# Protobuf's C and Python descriptors have different types.
Descriptor = Any


class _Field(NamedTuple):
    name: str
    is_list: bool
    has_lists: bool
    """True if the messages in the field have lists themselves."""


def count_elements(message: Any, enough: int) -> int:
    """Return how many elements the lists of a message have, with those inside of others; above `enough` not all."""
    total = 0
    for field in _fields(message.DESCRIPTOR):
        content = getattr(message, field.name)
        if field.is_list:
            total += len(content)
        if total > enough:
            return total
        if field.has_lists:
            for each in content if field.is_list else (content,):
                total += count_elements(each, enough - total)
                if total > enough:
                    return total
    return total


@cache
def _fields(descriptor: Descriptor) -> tuple[_Field, ...]:
    """Return the fields that are lists, or have lists."""
    found = []
    for field in descriptor.fields:
        nested = field.message_type
        is_map = nested is not None and nested.GetOptions().map_entry
        has_lists = nested is not None and not is_map and bool(_fields(nested))
        if field.is_repeated or has_lists:
            found.append(_Field(field.name, field.is_repeated, has_lists))
    return tuple(found)
