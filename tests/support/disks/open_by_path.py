"""A directory held open on a disk of tests, which knows it by its path."""

from __future__ import annotations

from collections.abc import Callable


class OpenByPath:
    """Implements `kraft.log.disk.OpenDirectory` by the disk's own `sync_dir`."""

    def __init__(self, sync_dir: Callable[[str], None], path: str) -> None:
        self._sync_dir = sync_dir
        self._path = path

    def sync(self) -> None:
        self._sync_dir(self._path)

    def close(self) -> None:
        pass
