"""What an earlier process wrote and is not known to have made durable is written again, where it stands.

A kernel that failed to write pages says so once, to one sync, and may mark the pages clean: they are read as if all
were well, no later sync writes them, and the next loss of power takes them. Writing the same bytes makes the pages
dirty again. See docs/adr/0022-what-was-not-known-to-be-durable-is-written-again.md.
"""

from __future__ import annotations

from typing import Protocol


class ReadableFile(Protocol):
    """File as a scan needs it."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...


class WritableFile(ReadableFile, Protocol):
    def write_at(self, position: int, data: bytes) -> None:
        """All of `data`."""
        ...


class WrittenAgain:
    """Reads of a file, each of which writes back what it read. To be synced by whoever made it.

    What a scan then checks are the bytes that were written: a clean page may be dropped between two reads, and the
    second one would find what the disk has.
    """

    def __init__(self, file: WritableFile) -> None:
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, position: int, size: int) -> bytes:
        data = self._file.read_at(position, size)
        self._file.write_at(position, data)
        return data
