"""Fallbacks of the record codec for when librt is missing, in which case the codec is not compiled."""

from __future__ import annotations

from struct import Struct
from typing import Final

_INT32: Final = Struct("<i")
_INT64: Final = Struct("<q")


class BytesWriter(list[bytes]):
    """The part of `librt.strings.BytesWriter` that the codec uses. Faster than `io.BytesIO` for many small pieces."""

    write = list.append

    def append(self, byte: int) -> None:  # type: ignore[override]  # One byte, as the other class has it.
        self.write(bytes((byte,)))

    def getvalue(self) -> bytes:
        return b"".join(self)


def write_i32_le(writer: BytesWriter, number: int) -> None:
    writer.write(_INT32.pack(number))


def write_i64_le(writer: BytesWriter, number: int) -> None:
    writer.write(_INT64.pack(number))


def read_i32_le(data: bytes, index: int) -> int:
    """Raises IndexError."""
    if not 0 <= index <= len(data) - _INT32.size:
        raise IndexError(index)
    found: int = _INT32.unpack_from(data, index)[0]
    return found


def read_i64_le(data: bytes, index: int) -> int:
    """Raises IndexError."""
    if not 0 <= index <= len(data) - _INT64.size:
        raise IndexError(index)
    found: int = _INT64.unpack_from(data, index)[0]
    return found
