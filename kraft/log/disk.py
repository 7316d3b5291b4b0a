"""What the log needs of a disk. The interface belongs to its user: one body is real, another is simulated.

Paths are text joined by "/". Every operation may raise OSError, which the log takes as the end of that directory; a
path that does not exist raises FileNotFoundError.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Protocol


def is_disk_full(error: OSError) -> bool:
    """True when there was no room for a write, on the disk or within its owner's quota: the disk is well otherwise."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class File(Protocol):
    """An open file. Reads and writes name their position; there is no cursor to be shared."""

    @property
    def size(self) -> int:
        """In bytes, as this process has written it."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """All of `data`. What is written lasts through a power failure only after `sync`."""
        ...

    def append(self, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        """Writes the pieces back to back at the end, and returns the position of the first byte."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size`, and gives back what was reserved behind it."""
        ...

    def reserve(self, size: int) -> None:
        """Sets disk space aside for a file that will grow to `size`; what the file holds, and `size`, stay as they are.

        A disk that cannot do that does nothing; one without the space raises OSError ENOSPC.
        """
        ...

    def sync(self) -> None:
        """Returns when everything written so far is durable. The one operation that another thread may run."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """Files and directories by path."""

    def open(self, path: str, create: bool) -> File:
        """For reading and writing. Raises FileNotFoundError unless the file exists or `create` is set."""
        ...

    def exists(self, path: str) -> bool: ...

    def read_file(self, path: str) -> bytes: ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """Whatever happens, the path holds its old content or this; the new one is durable on return."""
        ...

    def list(self, directory: str) -> Sequence[str]:
        """The names in the directory, sorted."""
        ...

    def make_dir(self, path: str) -> None:
        """With its parents; one that exists already is left as it is."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file."""
        ...

    def remove_tree(self, path: str) -> None:
        """Removes a directory and all in it."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Replaces the target."""
        ...

    def sync_dir(self, path: str) -> None:
        """Makes creations, renames and removals in the directory durable."""
        ...

    def free_bytes(self, directory: str) -> int:
        """What this process may still write to the file system of the directory."""
        ...
