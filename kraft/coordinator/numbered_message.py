"""Bytes of a message after a number: a key after the type of its record, a value after its version."""

from __future__ import annotations

import struct
from typing import Final

from kraft.wire import codec
from kraft.wire.declaration import Message
from kraft.wire.errors import ProtocolError

_INT16: Final = struct.Struct(">h")


def encode(number: int, message: Message, version: int) -> bytes:
    """Return the bytes. Raises struct.error for a value that does not fit its field, which is a bug."""
    return b"".join(codec.encode(message, version, bytearray(_INT16.pack(number))))


def number_of(data: bytes) -> int:
    """Return the number. Raises ProtocolError if the bytes are too few."""
    if len(data) < _INT16.size:
        raise ProtocolError(f"a key or value of a record has {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number


def decode(kind: type[Message], version: int, data: bytes) -> Message:
    """Return the message after the number, in memory in proportion to its bytes. Raises ProtocolError."""
    # An element takes a byte or more: no record is refused for the number of its elements.
    return codec.decode(kind, version, data, _INT16.size, elements_max=len(data))
