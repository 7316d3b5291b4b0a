"""Plaintext of one connection that waits to be encrypted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

RECORD_DATA_BYTES: Final = 16 * 1024
"""Plaintext of a full record. Smaller pieces are encrypted together up to this size."""

ENCRYPTED_AT_ONCE_BYTES: Final = 128 * 1024
"""Plaintext that is encrypted for one system call."""

Buffer = bytes | bytearray | memoryview


class UnsentPieces:
    def __init__(self) -> None:
        self._pieces: deque[Buffer] = deque()
        self.size_bytes = 0

    def extend(self, pieces: Iterable[Buffer]) -> None:
        for piece in pieces:
            self._pieces.append(piece)
            self.size_bytes += len(piece)

    def take(self) -> Buffer:
        """Remove and return what is encrypted next: a part of a large piece, or small pieces together."""
        pieces = self._pieces
        first = pieces.popleft()
        if len(first) > ENCRYPTED_AT_ONCE_BYTES:
            view = memoryview(first)
            pieces.appendleft(view[ENCRYPTED_AT_ONCE_BYTES:])
            first = view[:ENCRYPTED_AT_ONCE_BYTES]
        elif pieces and len(first) < RECORD_DATA_BYTES:
            together, size = [first], len(first)
            while pieces and size + len(pieces[0]) <= RECORD_DATA_BYTES:
                together.append(pieces.popleft())
                size += len(together[-1])
            first = b"".join(together)
        self.size_bytes -= len(first)
        return first

    def clear(self) -> None:
        self._pieces.clear()
        self.size_bytes = 0
