"""The real disk. Files use pread and pwrite, so that threads share no file position."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from kraft.runtime.spare_files import Opened, Opens, SpareFiles

_TEMPORARY_SUFFIX = ".tmp"

FILE_MODE: Final = 0o600
"""Permissions of new files: what they hold is for this user only. Files that exist keep theirs."""

DIRECTORY_MODE: Final = 0o700

_PIECES_MAX = 1024
"""The most pieces that the kernel accepts in one call (IOV_MAX)."""

_FALLOCATE_KEEP_SIZE = 1
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_libc = ctypes.CDLL(None, use_errno=True)


def open_privately(path: str, flags: int) -> int:
    """Open a file as the `opener` of Python's `open`; a new one is for this user only."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_directories(path: str | Path) -> None:
    """Make a directory and those above it, for this user only. Those that exist keep their permissions."""
    directory = Path(path)
    if not directory.parent.exists():
        # `os.makedirs` gives its mode to the last directory alone.
        make_directories(directory.parent)
    directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


class RealFile:
    """An open file of the operating system. Implements `kraft.log.disk.File`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) in (size, 0):
            return data
        # A signal or the end of the file may cut a read short; only the next read shows which.
        pieces = [data]
        missing = size - len(data)
        while missing and (data := os.pread(self._descriptor, missing, position + size - missing)):
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        written = 0
        while written < len(view):
            written += _progress(os.pwrite(self._descriptor, view[written:], position + written))
        self.size = max(self.size, position + len(view))

    def append(self, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        position = self.size
        if len(pieces) <= _PIECES_MAX:
            self._append_some(pieces)
            return position
        for start in range(0, len(pieces), _PIECES_MAX):
            self._append_some(pieces[start : start + _PIECES_MAX])
        return position

    def _append_some(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        start = self.size
        written = os.pwritev(self._descriptor, pieces, start)
        if written < sum(map(len, pieces)):
            self.write_at(start + _progress(written), b"".join(pieces)[written:])
        else:
            self.size = start + written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def reserve(self, size: int) -> None:
        # os.posix_fallocate would grow the file, and recovery would find zeros after the records.
        arguments = map(ctypes.c_int64, (self.size, max(size - self.size, 1)))
        if _libc.fallocate(self._descriptor, _FALLOCATE_KEEP_SIZE, *arguments) != 0:
            number = ctypes.get_errno()
            if number not in _CANNOT_RESERVE:
                raise OSError(number, os.strerror(number))

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealDirectory:
    """An open directory. Implements `kraft.log.disk.OpenDirectory`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class RealDisk:
    """The file system of this machine. Implements `kraft.log.disk.Disk`."""

    _spare_files: SpareFiles | None = None

    def __init__(self, spare_files: SpareFiles | None = None) -> None:
        """`spare_files` are for a process that may have no more files to open. None: an open then fails at once."""
        self._spare_files = spare_files

    def _opening(self, opens: Opens[Opened]) -> Opened:
        return opens() if self._spare_files is None else self._spare_files.opening(opens)

    def open(self, path: str, create: bool) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(self._opening(lambda: os.open(path, flags, FILE_MODE)))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read_file(self, path: str) -> bytes:
        with self._opening(lambda: open(path, "rb")) as file:
            return file.read()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + _TEMPORARY_SUFFIX
        # Opened before anything changes, which may fail for want of files.
        with closing(self._open_dir(os.path.dirname(path) or ".")) as directory:
            with self._opening(lambda: open(temporary, "wb", opener=open_privately)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            directory.sync()

    def list(self, directory: str) -> Sequence[str]:
        return sorted(self._opening(lambda: os.listdir(directory)))

    def make_dir(self, path: str) -> None:
        make_directories(path)

    def remove(self, path: str) -> None:
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        self._opening(lambda: shutil.rmtree(path))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def sync_dir(self, path: str) -> None:
        with closing(self._open_dir(path)) as directory:
            directory.sync()

    def open_dir(self, path: str) -> RealDirectory:
        return self._open_dir(path)

    def _open_dir(self, path: str) -> RealDirectory:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return RealDirectory(self._opening(lambda: os.open(path, flags)))

    def free_bytes(self, directory: str) -> int:
        state = os.statvfs(directory)
        return state.f_bavail * state.f_frsize


def _progress(written: int) -> int:
    if written == 0:
        raise OSError("the disk wrote no bytes")
    return written
