"""Encodes and decodes messages. The functions for a version of a message are generated at its first use."""

from __future__ import annotations

from typing import Final, TypeVar

from kraft.wire.declaration import Buffer, Message
from kraft.wire.decoder import Decode, decoder
from kraft.wire.encoder import Encode, encoder
from kraft.wire.errors import ProtocolError

M = TypeVar("M", bound=Message)

ELEMENTS_MAX: Final = 1 << 16
"""Default limit on array elements and tagged fields in one message, at all depths together. Eight plain numbers count
as one.

It limits the memory that decoding takes besides the frame: an element of two bytes becomes a value of 65 bytes, an
element of a request one of at most 160, a number one of 40.
"""

_decoders: Final[dict[tuple[type[Message], int], Decode]] = {}
_encoders: Final[dict[tuple[type[Message], int], Encode]] = {}


def decode(message: type[M], version: int, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> M:
    """Decode the message that starts at `position`. Bytes after it are ignored: librdkafka sometimes sends a few.

    Its records are memoryviews of `data`; everything else is copied. Raises ProtocolError and nothing else.
    """
    read = _decoders.get((message, version)) or _new_decoder(message, version)
    decoded, _ = read(memoryview(data), position, elements_max)
    made: M = decoded
    return made


def encode(message: Message, version: int, head: bytearray | None = None) -> list[Buffer]:
    """Encode a message as buffers to write one after the other; the first begins with the content of `head`.

    Records are not copied: the buffers include those that the message holds. Raises ProtocolError for a version that
    the message does not have, and struct.error for a value that does not fit its field, which is a bug.
    """
    kind = type(message)
    write = _encoders.get((kind, version))
    if write is None:
        _check(kind, version)
        write = _encoders[kind, version] = encoder(kind, version)
    return write(message, bytearray() if head is None else head)


def _new_decoder(message: type[Message], version: int) -> Decode:
    _check(message, version)
    read = _decoders[message, version] = decoder(message, version)
    return read


def _check(message: type[Message], version: int) -> None:
    if version not in message.versions:
        raise ProtocolError(f"{message.__name__} has versions {message.versions}, not {version}")
