"""The disk as somebody may see it who only looks: no file is opened for writing, so none of the node's is at risk."""

from __future__ import annotations

import os

from kraft.runtime.disk import RealDisk, RealFile


class ReadOnlyDisk(RealDisk):
    """Works on files that the user may only read. Writing to a file raises OSError."""

    def open(self, path: str, create: bool) -> RealFile:
        assert not create, "a disk that is only read makes no files"
        return RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
