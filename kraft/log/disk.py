"""The disk interface of the log, with a real implementation and a simulated one.

Paths are text joined by "/". Every operation may raise OSError, after which the log treats the directory as failed; a
path that does not exist raises FileNotFoundError.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol


def is_disk_full(error: OSError) -> bool:
    """True if a write found no room, on the disk or within the owner's quota: the disk itself has not failed."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def lacks_files(error: OSError) -> bool:
    """True if the process or the system could not open anything at the moment: this says nothing about the disk."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def is_shortage(error: OSError) -> bool:
    """True if the same work can succeed later, and everything written before is intact."""
    return is_disk_full(error) or lacks_files(error)


class ReadableFile(Protocol):
    """Operations that a scan needs of a file; `File` has them."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""
        ...


class File(Protocol):
    """An open file. Reads and writes name their position; there is no shared cursor."""

    @property
    def size(self) -> int:
        """Size in bytes, as this process has written it."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`. It survives a power failure only after `sync`."""
        ...

    def append(self, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        """Write the pieces back to back at the end, and return the position of the first byte."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size`, and release the space reserved beyond it."""
        ...

    def reserve(self, size: int) -> None:
        """Reserve disk space for a file that will grow to `size`; its content and its present size do not change.

        A disk that cannot do that does nothing; one without the space raises OSError ENOSPC.
        """
        ...

    def sync(self) -> None:
        """Block until everything written so far is durable. The only operation that another thread may run."""
        ...

    def close(self) -> None: ...


class OpenDirectory(Protocol):
    """A directory that is held open, so that its sync needs no free file."""

    def sync(self) -> None:
        """Do what `Disk.sync_dir` does."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path."""

    def open(self, path: str, create: bool) -> File:
        """Open a file to read and write. Raises FileNotFoundError unless the file exists or `create` is set."""
        ...

    def exists(self, path: str) -> bool: ...

    def read_file(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace the file's content, durably on return. After a crash the path holds either the old or the new one."""
        ...

    def list(self, directory: str) -> Sequence[str]:
        """Return the names in the directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """Create a directory and its parents; an existing one stays as it is."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; an existing target file is replaced."""
        ...

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in the directory durable."""
        ...

    def open_dir(self, path: str) -> OpenDirectory: ...

    def free_bytes(self, directory: str) -> int:
        """Return how many bytes this process may still write to the directory's file system."""
        ...
