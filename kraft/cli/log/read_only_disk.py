"""A disk that opens no file for writing, so that files of a running node are safe."""

from __future__ import annotations

import os

from kraft.runtime.disk import RealDisk, RealFile


class ReadOnlyDisk(RealDisk):
    """Opens files for reading only, so read permission is enough. Writing to a file raises OSError."""

    def open(self, path: str, create: bool) -> RealFile:
        assert not create, "a read-only disk creates no files"
        return RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
