"""Requests that wait until the last transaction of their transactional id is complete.

A producer is answered when the end of its transaction is decided, and may ask for the next one before every partition
has its marker. Refused, it pauses, usually for 20 ms: longer than the markers take from then on.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Final

from kraft.server.coordinator.transaction_kind import TransactionHost

COMPLETION_S_MAX: Final = 0.1
"""How long a request waits. The producer's later requests on its connection wait behind it."""


class Completions:
    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def wait(self, host: TransactionHost, transactional_id: str) -> bool:
        """Return True as soon as it is decided that the transaction is complete, and False if that takes long.

        Its commit is not waited for: what is decided next is committed after it, or lost with it.
        """
        if not host.is_running or host.latest is None:
            return False
        if not _is_being_completed(host, transactional_id):
            return True
        waiting = self._waiting[transactional_id]
        complete = asyncio.get_running_loop().create_future()
        waiting.add(complete)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(COMPLETION_S_MAX):
                    await complete
            return complete.done() and not complete.cancelled()
        finally:
            waiting.discard(complete)
            if not waiting:
                self._waiting.pop(transactional_id, None)

    def check(self, host: TransactionHost, transactional_id: str) -> None:
        """End the waits of this id if its transaction is complete."""
        if transactional_id in self._waiting and not _is_being_completed(host, transactional_id):
            for complete in self._waiting.pop(transactional_id):
                if not complete.done():
                    complete.set_result(None)


def _is_being_completed(host: TransactionHost, transactional_id: str) -> bool:
    return host.latest is None or transactional_id in host.latest.prepared
