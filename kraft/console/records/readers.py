"""How many people read records at the same time, and the threads of live tails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from kraft.console.streams import STREAMS_MAX
from kraft.model.errors import KraftError

READERS_MAX: Final = 4
"""Pages of records that are read at the same time, for a fraction of a second mostly. Each may hold a batch that is
small as it is sent and decompresses to 48 MiB; with fewer, people at a slow cluster would be in each other's way."""


class Readers:
    """All of the process."""

    def __init__(self) -> None:
        self._turns = threading.BoundedSemaphore(READERS_MAX)
        self.tails = ThreadPoolExecutor(STREAMS_MAX, thread_name_prefix="kraft-console-tail")
        """Threads of live tails, each of which waits for a cluster most of the time."""

    @contextmanager
    def turn(self, wait_s: float) -> Iterator[None]:
        """Take a turn of those who read pages. Raises KraftError if there is none in time."""
        if not self._turns.acquire(timeout=wait_s):
            raise KraftError(f"{READERS_MAX} people read records at this moment: try again in a few seconds")
        try:
            yield
        finally:
            self._turns.release()

    def close(self) -> None:
        self.tails.shutdown(wait=False, cancel_futures=True)
