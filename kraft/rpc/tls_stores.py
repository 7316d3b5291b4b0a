"""Keys and certificates for gRPC, which are read again when their files have changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kraft.tls.store_files import KeyMaterial, read_key_store, read_trust_store
from kraft.tls.stores import TlsSettings
from kraft.tls.watched_files import WatchedFiles, read_again, store_files

LOOK_S: Final = 1.0
"""The files are looked at once in this time at most."""


class StoresRead(Struct, frozen=True, kw_only=True):
    """What the stores held when they were read, in PEM."""

    key: KeyMaterial | None
    trusted: bytes | None


class WatchedStores:
    """The stores of one listener or client. May be used by several threads."""

    def __init__(self, settings: TlsSettings, monotonic_s: Callable[[], float]) -> None:
        """Read them. Raises StoreError."""
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._guard = threading.Lock()
        self._files = WatchedFiles(store_files(settings))
        self._looked_s = monotonic_s()
        self.latest = self._read()
        self.generation = 0
        """Counts how often they have changed."""

    def look(self) -> int:
        """Read them again if a file has changed; return the generation of `latest`.

        Stores that cannot be used are logged, and those before stay in use.
        """
        with self._guard:
            now_s = self._monotonic_s()
            if now_s - self._looked_s < LOOK_S:
                return self.generation
            self._looked_s = now_s
            found = read_again(self._files, self._read, files=[str(path) for path in self._files.paths])
            if found is not None:
                self.latest = found
                self.generation += 1
            return self.generation

    def _read(self) -> StoresRead:
        settings = self._settings
        return StoresRead(
            key=None if settings.key_store is None else read_key_store(settings.key_store),
            trusted=None if settings.trust_store is None else read_trust_store(settings.trust_store),
        )
