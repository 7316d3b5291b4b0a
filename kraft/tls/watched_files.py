"""Files that are read again when they change."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

_Mark: TypeAlias = tuple[int, int, int] | None


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


def store_files(settings: TlsSettings) -> list[Path]:
    """Return the files of the stores; those whose content is in the settings have none."""
    stores = (settings.key_store, settings.trust_store)
    return [store.path for store in stores if isinstance(store, (KeyStoreFile, TrustStoreFile))]


def _mark(path: Path) -> _Mark:
    """Return what differs once a file has another content; None while it cannot be found, as when it is replaced.

    It leads through links, as those of Kubernetes.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
