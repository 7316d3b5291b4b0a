"""Files that are read again when they change.

Stores that cannot be used are logged, and what was read before them stays in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias, TypeVar

import structlog

from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

log = structlog.get_logger()

Content = TypeVar("Content")

_Mark: TypeAlias = tuple[int, ...] | None


class WatchedFiles:
    """Notices that a file was replaced or written to. To be made before the files are read for the first time."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self._seen = self._marks()

    def have_changed(self) -> bool:
        """Return whether one has changed since the call before. It asks the disk, which may be slow."""
        found = self._marks()
        if found == self._seen:
            return False
        # Before the caller reads them: a change in between is found by the next call.
        self._seen = found
        return True

    def _marks(self) -> list[_Mark]:
        return [_mark(path) for path in self.paths]


def read_again(files: WatchedFiles, read: Callable[[], Content], /, **of: object) -> Content | None:
    """Return what `read` returns if a file has changed; None if not, or if the stores in them cannot be used.

    `of` says in the log whose they are. It asks the disk, which may be slow.
    """
    if not files.have_changed():
        return None
    try:
        content = read()
    except StoreError as error:
        log.error("certificates not renewed", reason=str(error), **of)
        return None
    log.info("certificates renewed", **of)
    return content


def store_files(settings: TlsSettings) -> list[Path]:
    """Return the files of the stores; those whose content is in the settings have none."""
    stores = (settings.key_store, settings.trust_store)
    return [store.path for store in stores if isinstance(store, (KeyStoreFile, TrustStoreFile))]


def _mark(path: Path) -> _Mark:
    """Return what differs once a file has another content; None while it cannot be found, as when it is replaced.

    It leads through links, as those of Kubernetes. Owner and permissions count, too: a secret that others could read
    was refused, and is used as soon as they cannot.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid, found.st_gid
