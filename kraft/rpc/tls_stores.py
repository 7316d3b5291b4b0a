"""Keys and certificates for gRPC, which are read again when their files have changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import structlog
from msgspec import Struct

from kraft.tls.store_files import KeyMaterial, StoreError, read_key_store, read_trust_store
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

log = structlog.get_logger()

LOOK_S: Final = 1.0
"""The files are looked at once in this time at most."""

_Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]


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
        self._stamp = self._stamp_now()
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
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp
                self._replace()
            return self.generation

    def _replace(self) -> None:
        try:
            self.latest = self._read()
        except StoreError as error:
            log.error("certificates not renewed", reason=str(error))
            return
        self.generation += 1
        log.info("certificates renewed", files=[str(path) for path in self._paths()])

    def _read(self) -> StoresRead:
        settings = self._settings
        return StoresRead(
            key=None if settings.key_store is None else read_key_store(settings.key_store),
            trusted=None if settings.trust_store is None else read_trust_store(settings.trust_store),
        )

    def _paths(self) -> list[Path]:
        stores = (self._settings.key_store, self._settings.trust_store)
        return [store.path for store in stores if isinstance(store, (KeyStoreFile, TrustStoreFile))]

    def _stamp_now(self) -> _Stamp:
        return tuple(_stamp(path) for path in self._paths())


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file's content; None while it cannot be found, as when it is being replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
