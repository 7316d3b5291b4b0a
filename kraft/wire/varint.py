"""Unsigned variable-length numbers: the lengths and tags of flexible versions.

Seven bits a byte, the lowest first, no zigzag; at most 32 bits. Source: KIP-482.
"""

from __future__ import annotations

from typing import Final

from kraft.wire.errors import ProtocolError

_BITS_MAX: Final = 32


def encode_uvarint(value: int) -> bytes:
    """Encode a number. Raises ValueError if it is negative or has more than 32 bits."""
    if not 0 <= value < 1 << _BITS_MAX:
        raise ValueError(f"{value} is not an unsigned number of {_BITS_MAX} bits")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


SMALL_UVARINTS: Final = tuple(encode_uvarint(value) for value in range(0x80))
"""The encodings of one byte; nearly all numbers have one."""


def decode_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the number at `position`, and the position after it.

    Raises ProtocolError for a number of more than 32 bits, IndexError at the end of the data.
    """
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first - 0x80 | second << 7, position + 2
    third = data[position + 2]
    if third < 0x80:
        # The usual length of records, decoded in every produce request.
        return first - 0x80 | second - 0x80 << 7 | third << 14, position + 3
    value, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= _BITS_MAX:
            raise ProtocolError(f"a variable-length number that ends at byte {position} or later is too long")
    if value >> _BITS_MAX:
        raise ProtocolError(f"a variable-length number before byte {position} has more than {_BITS_MAX} bits")
    return value, position
