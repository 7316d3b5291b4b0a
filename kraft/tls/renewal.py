"""Contexts that follow the files of their stores: who connects after a change meets the new certificates.

Connections that are open keep theirs. A change that cannot be used is logged, and the context before it stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kraft.tls.stores import TlsSettings
from kraft.tls.watched_files import WatchedFiles, read_again, store_files

CHECK_PERIOD_S: Final = 2.0

Context = TypeVar("Context")


class RenewedContext(Generic[Context]):
    """The context of one listener, or of a client."""

    def __init__(self, name: str, settings: TlsSettings, make: Callable[[TlsSettings], Context]) -> None:
        """Make the first context; `name` is that of the listener, for the log. Raises StoreError."""
        self._name = name
        self._settings = settings
        self._make = make
        self._files = WatchedFiles(store_files(settings))
        self._context = make(settings)
        self.generation = 0
        """Counts how often it was renewed."""

    def current(self) -> Context:
        return self._context

    async def watch(self) -> None:
        """Check the files until cancelled."""
        while self._files.paths:
            await asyncio.sleep(CHECK_PERIOD_S)
            await self.check()

    async def check(self) -> None:
        """Make a new context if a file has changed."""
        # In a thread: a file system may be slow, and to decrypt a key takes long.
        changed = await asyncio.to_thread(
            read_again, self._files, lambda: self._make(self._settings), listener=self._name
        )
        if changed is not None:
            self._context = changed
            self.generation += 1
