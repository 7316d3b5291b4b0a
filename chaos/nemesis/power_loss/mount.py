"""A volume as a file system of the kernel, through FUSE. Only the process of a disk imports this: it loads libfuse."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mfusepy

from chaos.nemesis.power_loss.volume import Volume


class _Operations(mfusepy.Operations):  # type: ignore[misc]  # mfusepy has no type information.
    """Callbacks of libfuse, under its names. Links, extended attributes and others are missing: ENOSYS.

    A path is None for a file that lost its name while it was open.
    """

    # Times are whole nanoseconds.
    use_ns = True

    def __init__(self, volume: Volume, on_mounted: Callable[[], None]) -> None:
        self._volume = volume
        self._on_mounted = on_mounted

    def init(self, path: str) -> None:
        self._on_mounted()

    def getattr(self, path: str | None, fh: int | None = None) -> dict[str, int]:
        return self._volume.attributes(path, fh)

    def create(self, path: str, mode: int, fi: int) -> int:
        return self._volume.create(path, mode, fi)

    def open(self, path: str, flags: int) -> int:
        return self._volume.open(path, flags)

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes:
        return self._volume.read(fh, offset, size)

    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        return self._volume.write(fh, offset, data)

    def truncate(self, path: str | None, length: int, fh: int | None = None) -> None:
        # mfusepy does not pass the handle.
        if path is None:
            raise OSError(errno.EOPNOTSUPP, "a file without a name cannot be truncated here")
        self._volume.truncate(path, length)

    def fallocate(self, path: str | None, mode: int, offset: int, size: int, fh: int) -> None:
        self._volume.allocate(fh, mode, offset, size)

    def fsync(self, path: str | None, datasync: int, fh: int) -> None:
        self._volume.sync(fh)

    def release(self, path: str | None, fh: int) -> None:
        self._volume.close(fh)

    def opendir(self, path: str) -> int:
        return self._volume.open_dir(path)

    def readdir(self, path: str | None, fh: int) -> Iterable[str]:
        return [".", "..", *self._volume.list(path, fh)]

    def fsyncdir(self, path: str | None, datasync: int, fh: int) -> None:
        self._volume.sync(fh)

    def releasedir(self, path: str | None, fh: int) -> None:
        self._volume.close(fh)

    def mkdir(self, path: str, mode: int) -> None:
        self._volume.make_dir(path, mode)

    def rmdir(self, path: str) -> None:
        self._volume.remove_dir(path)

    def unlink(self, path: str) -> None:
        self._volume.unlink(path)

    def rename(self, old: str, new: str) -> None:
        self._volume.rename(old, new)

    def chmod(self, path: str, mode: int) -> None:
        self._volume.change_mode(path, mode)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        accessed_ns, modified_ns = times or (time.time_ns(), time.time_ns())
        self._volume.change_times(path, accessed_ns, modified_ns)

    def statfs(self, path: str) -> dict[str, int]:
        return self._volume.space()


def serve(volume: Volume, mount_point: Path, on_mounted: Callable[[], None]) -> None:
    """Mounts the volume, and returns when it is unmounted. For the main thread. Raises RuntimeError.

    Nothing is kept by the kernel between two calls: it could not know what the loss of power takes away.
    """
    options: dict[str, Any] = {
        "foreground": True,
        "fsname": "kraft-power-loss",
        "attr_timeout": 0,
        "entry_timeout": 0,
        "negative_timeout": 0,
        "direct_io": True,
        # Without it, a file that is removed while it is open would go on under another name in the same directory.
        "hard_remove": True,
    }
    mfusepy.FUSE(_Operations(volume, on_mounted), str(mount_point), **options)
