"""Contexts that follow the files of their stores: who connects after a change meets the new certificates.

Connections that are open keep theirs. A change that cannot be used is logged, and the context before it stays.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from kraft.tls.store_files import StoreError
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile

log = structlog.get_logger()

CHECK_PERIOD_S: Final = 2.0

Context = TypeVar("Context")
Fingerprint = tuple[tuple[int, int, int] | None, ...]


class RenewedContext(Generic[Context]):
    """The context of one listener, or of a client."""

    def __init__(self, name: str, settings: TlsSettings, make: Callable[[TlsSettings], Context]) -> None:
        """Make the first context; `name` is that of the listener, for the log. Raises StoreError."""
        self._name = name
        self._settings = settings
        self._make = make
        self._paths = _paths(settings)
        # Before the files are read: a change in between is found by the next check.
        self._seen = _fingerprint(self._paths)
        self._context = make(settings)

    def current(self) -> Context:
        return self._context

    async def watch(self) -> None:
        """Check the files until cancelled."""
        while self._paths:
            await asyncio.sleep(CHECK_PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Make a new context if a file has changed."""
        # In a thread: a file system may be slow, and to decrypt a key takes long.
        changed = await asyncio.to_thread(self._remake)
        if changed is not None:
            self._context = changed
            log.info("certificates renewed", listener=self._name)

    def _remake(self) -> Context | None:
        found = _fingerprint(self._paths)
        if found == self._seen:
            return None
        self._seen = found
        try:
            return self._make(self._settings)
        except StoreError as error:
            log.warning("certificates not renewed", listener=self._name, reason=str(error))
            return None


def _paths(settings: TlsSettings) -> list[Path]:
    stores = (settings.key_store, settings.trust_store)
    return [store.path for store in stores if isinstance(store, (KeyStoreFile, TrustStoreFile))]


def _fingerprint(paths: list[Path]) -> Fingerprint:
    """Return what differs once a file is replaced or written to; it leads through links, as those of Kubernetes."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_ino, status.st_size))
    return tuple(found)
