"""What the record codec writes with where librt is missing, so where the codec cannot have been compiled."""

from __future__ import annotations


class BytesWriter(list[bytes]):
    """As `librt.strings.BytesWriter`, as far as the codec uses it. Quicker than `io.BytesIO` with many small pieces."""

    write = list.append

    def getvalue(self) -> bytes:
        return b"".join(self)
