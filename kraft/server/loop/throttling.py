"""Clients that wait because they used more than their quotas. When quotas change, all of them go on at once.

What they waited for may have been taken away. Where it was not, the next request says so again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kraft.metadata.settings import QuotaSubject
from kraft.model.callbacks import Callback, NowMs
from kraft.quotas.client_quotas import ClientQuotas

ENDED_AT_ONCE: Final = 200
"""Waits that end in one turn of the loop."""


class Pause:
    """The wait of one client, which can be cancelled."""

    def __init__(self, pauses: dict[Pause, None], wait_ms: int, over: Callback) -> None:
        self._pauses = pauses
        self._over = over
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1_000, self.end)
        pauses[self] = None

    def cancel(self) -> None:
        self._timer.cancel()
        self._pauses.pop(self, None)

    def end(self) -> None:
        self.cancel()
        self._over()


class Throttling:
    def __init__(self, monotonic_ms: NowMs, quotas: ClientQuotas | None = None) -> None:
        """`quotas`: None for Kafka's default windows."""
        self.quotas = quotas or ClientQuotas()
        self.now_ms = monotonic_ms
        self._pauses: dict[Pause, None] = {}
        """In the order in which they began."""
        self.throttled = 0
        """Number of waits since the process began."""
        self.throttled_ms = 0

    def reconfigure(self, entries: Mapping[QuotaSubject, Mapping[str, float]]) -> None:
        self.quotas.reconfigure(entries)
        self._end(list(self._pauses))

    def pause(self, wait_ms: int, over: Callback) -> Pause:
        """Call `over` after the wait, or when quotas change, unless the pause is cancelled."""
        self.throttled += 1
        self.throttled_ms += wait_ms
        return Pause(self._pauses, wait_ms, over)

    async def wait(self, wait_ms: int) -> None:
        """Wait for so long, or until quotas change."""
        over = asyncio.Event()
        pause = self.pause(wait_ms, over.set)
        try:
            await over.wait()
        finally:
            pause.cancel()

    def _end(self, pauses: list[Pause]) -> None:
        for pause in pauses[:ENDED_AT_ONCE]:
            if pause in self._pauses:
                pause.end()
        if rest := pauses[ENDED_AT_ONCE:]:
            asyncio.get_running_loop().call_soon(self._end, rest)
