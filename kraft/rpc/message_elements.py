"""The number of elements in a message's lists: what its decoding and conversion take, in time and memory.

They are counted in the encoded message, because decoding is a single call that nothing interrupts.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

# Protobuf's C and Python descriptors have different types.
Descriptor = Any

FIELDS_OF_ELEMENT: Final = 8
"""An encoded message may have this many fields for each element, and otherwise counts as one with too many. Only
a message that sets the same field again and again has more.
"""

_WIRE_TYPE_BITS, _WIRE_TYPE = 3, 7
_VARINT, _SIZED = 0, 2
_SIZES: Final = {1: 8, 5: 4}
"""Sizes of numbers by the wire types that have one."""

_MORE: Final = 0x80
"""Bit of every byte of a varint except the last."""

_CONTINUED: Final = bytes(range(_MORE, 256))
_FIXED_SIZE: Final = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}
_ONE_EACH: Final = frozenset({FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
"""Types of lists whose elements are encoded one by one; numbers are packed."""


_VARINT_BITS_MAX: Final = 70


class _NoNumber(Exception):
    """A number that does not end where it has to."""


class _MessageField(NamedTuple):
    is_list: bool
    packed_size: int | None
    """Size of a number of a packed list, 0 for varints; None for other fields."""

    nested: dict[int, _MessageField] | None
    """The fields of the message in it, if that has lists itself."""


def count_elements(data: bytes, descriptor: Descriptor, enough: int) -> int:
    """Return how many elements the lists of an encoded message have, with those inside of others.

    Above `enough` it does not count all. Bytes that are no message are counted up to the first mistake.
    """
    scan = _Scan(data, enough)
    # Where it is no message, its decoding will say so.
    with suppress(IndexError, _NoNumber):
        scan.run(0, len(data), _fields(descriptor))
    return enough + 1 if scan.has_enough else scan.elements


class _Scan:
    def __init__(self, data: bytes, enough: int) -> None:
        self._data = data
        self._enough = enough
        self._fields_left = enough * FIELDS_OF_ELEMENT
        self.elements = 0

    @property
    def has_enough(self) -> bool:
        return self.elements > self._enough or self._fields_left < 0

    def run(self, position: int, end: int, fields: dict[int, _MessageField]) -> None:
        """Count in the message between two positions. Raises IndexError or _NoNumber if there is none."""
        while position < end and not self.has_enough:
            self._fields_left -= 1
            tag, position = self._varint(position)
            field = fields.get(tag >> _WIRE_TYPE_BITS)
            kind = tag & _WIRE_TYPE
            if kind == _SIZED:
                size, position = self._varint(position)
                if field is not None:
                    self._sized(field, position, min(position + size, end))
                position += size
                continue
            # A number of a list that is not packed, or of another field.
            self.elements += field is not None and field.is_list
            if kind == _VARINT:
                _, position = self._varint(position)
            else:
                # Groups have no content of their own: their fields follow. No message of ours has one.
                position += _SIZES.get(kind, 0)

    def _sized(self, field: _MessageField, begin: int, end: int) -> None:
        if field.packed_size is None:
            self.elements += field.is_list
        elif field.packed_size:
            self.elements += (end - begin) // field.packed_size
        else:
            self.elements += len(self._data[begin:end].translate(None, _CONTINUED))
        if field.nested is not None:
            self.run(begin, end, field.nested)

    def _varint(self, position: int) -> tuple[int, int]:
        """Return the number at a position, and where it ends."""
        byte = self._data[position]
        position += 1
        if byte < _MORE:
            return byte, position
        number, shift = byte - _MORE, 7
        while (byte := self._data[position]) >= _MORE:
            number |= (byte - _MORE) << shift
            shift += 7
            position += 1
            if shift >= _VARINT_BITS_MAX:
                raise _NoNumber
        return number | byte << shift, position + 1


@cache
def _fields(descriptor: Descriptor) -> dict[int, _MessageField]:
    """Return the fields that are lists, or have lists, by their numbers."""
    found = {}
    for field in descriptor.fields:
        message = field.message_type
        is_map = message is not None and message.GetOptions().map_entry
        nested = None if message is None or is_map else _fields(message) or None
        if field.is_repeated or nested:
            packed = None if not field.is_repeated or field.type in _ONE_EACH else _FIXED_SIZE.get(field.type, 0)
            found[field.number] = _MessageField(field.is_repeated, packed, nested)
    return found
