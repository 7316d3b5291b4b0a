"""Fallback buffer of the record codec for when librt is missing, in which case the codec is not compiled."""

from __future__ import annotations


class BytesWriter(list[bytes]):
    """The part of `librt.strings.BytesWriter` that the codec uses. Faster than `io.BytesIO` for many small pieces."""

    write = list.append

    def getvalue(self) -> bytes:
        return b"".join(self)
