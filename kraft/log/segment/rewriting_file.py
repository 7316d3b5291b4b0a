"""Rewriting in place of bytes that an earlier process wrote and may not have made durable.

A kernel that failed to write pages reports it once, to one sync, and may mark the pages clean: reads succeed, no later
sync writes them, and a power failure loses them. Writing the same bytes makes the pages dirty again. See
docs/adr/0022-what-was-not-known-to-be-durable-is-written-again.md.
"""

from __future__ import annotations

from typing import Protocol

from kraft.log.disk import ReadableFile


class WritableFile(ReadableFile, Protocol):
    """Operations that rewriting needs of a file."""

    def write_at(self, position: int, data: bytes) -> None:
        """Write all of `data`."""
        ...


class RewritingFile:
    """A file in which each read writes back the bytes that it returns. The caller syncs it.

    So a scan checks the very bytes that are rewritten: the kernel may drop a clean page between two reads, and the
    second read would return what the disk has.
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
