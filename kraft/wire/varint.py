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
    # Lengths of records have two or three bytes, and one is decoded in every request.
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    value = value & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position + 2
    position, shift = position + 2, 14
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
