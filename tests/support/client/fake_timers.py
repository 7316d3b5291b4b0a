"""The timers of a coordinator's shard, on the running loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kraft.coordinator.shard import TimerKey


class FakeTimers:
    def __init__(self, ended: Callable[[TimerKey], None]) -> None:
        self._ended = ended
        self._running: dict[TimerKey, asyncio.TimerHandle] = {}

    def set(self, delays_ms: Mapping[TimerKey, int | None]) -> None:
        """Set timers, in place of those with the same keys; None only removes one."""
        for key, delay_ms in delays_ms.items():
            if (timer := self._running.pop(key, None)) is not None:
                timer.cancel()
            if delay_ms is not None:
                self._running[key] = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end, key)

    def clear(self) -> None:
        self.set(dict.fromkeys(self._running))

    def _end(self, key: TimerKey) -> None:
        del self._running[key]
        self._ended(key)
