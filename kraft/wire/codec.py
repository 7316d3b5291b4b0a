"""Messages to bytes and back. The functions that do it are written when a message's version is first met."""

from __future__ import annotations

from typing import Final, TypeVar

from kraft.wire.declaration import Buffer, Message
from kraft.wire.decoder import Decode, decoder
from kraft.wire.encoder import Encode, encoder
from kraft.wire.errors import ProtocolError

M = TypeVar("M", bound=Message)

ELEMENTS_MAX: Final = 1 << 16
"""Array elements and tagged fields in one message, at all depths together, unless the reader takes more or fewer. Of
plain numbers, eight count as one.

An element of two bytes becomes a value of 65, none of a request one of more than 160, and a number one of 40. So does
this bound what decoding takes beside the frame, whatever the frame holds.
"""

_decoders: Final[dict[tuple[type[Message], int], Decode]] = {}
_encoders: Final[dict[tuple[type[Message], int], Encode]] = {}


def decode(message: type[M], version: int, data: Buffer, position: int = 0, elements_max: int = ELEMENTS_MAX) -> M:
    """The message that starts at `position`. Bytes behind it are left alone: librdkafka is known to send a few.

    Its records are memoryviews of `data`; everything else is copied. Raises ProtocolError and nothing else.
    """
    decoded, _ = _decoder(message, version)(memoryview(data), position, elements_max)
    made: M = decoded
    return made


def encode(message: Message, version: int, head: bytearray | None = None) -> list[Buffer]:
    """Buffers to write one after the other, the first of which begins with what stands in `head`.

    Records are in there as the very buffers that the message holds. Raises ProtocolError for a version that the
    message does not have; a value that its field has no room for is a bug of ours, and ends in struct.error.
    """
    kind = type(message)
    write = _encoders.get((kind, version))
    if write is None:
        _check(kind, version)
        write = _encoders[kind, version] = encoder(kind, version)
    return write(message, bytearray() if head is None else head)


def _decoder(message: type[Message], version: int) -> Decode:
    read = _decoders.get((message, version))
    if read is None:
        _check(message, version)
        read = _decoders[message, version] = decoder(message, version)
    return read


def _check(message: type[Message], version: int) -> None:
    if version not in message.versions:
        raise ProtocolError(f"{message.__name__} has versions {message.versions}, not {version}")
