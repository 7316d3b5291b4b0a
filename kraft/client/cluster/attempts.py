"""The attempts of one call: the pauses between them, and a warning that says why they go on."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.sans_io.backoff import Backoff
from kraft.runtime.clock import Clock

log = logging.getLogger("kraft.client")

WARNED_AFTER_MS: Final = 1_000
"""Time without success after which a warning says why."""


class Attempts:
    """Attempts of one call until its deadline, which is on the client's clock."""

    def __init__(self, backoff: Backoff, clock: Clock, deadline_ms: int) -> None:
        self._backoff = backoff
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._began_ms = clock.monotonic_ms()
        self._failures = 1
        self._delay_ms = backoff.delay_ms(1)
        self._has_warned = False

    def may_follow(self, error: Exception, until_ms: int | None = None) -> bool:
        """Return whether another attempt can follow this error before the deadline, or before `until_ms`.

        Once the call has gone on for long, the error is logged as a warning. A silence of all brokers is not: who finds
        no broker logs it.
        """
        until_ms = self._deadline_ms if until_ms is None else min(until_ms, self._deadline_ms)
        now_ms = self._clock.monotonic_ms()
        goes_on = now_ms + self._delay_ms < until_ms
        if goes_on and now_ms - self._began_ms >= WARNED_AFTER_MS and not self._has_warned:
            self._has_warned = True
            if not isinstance(error, NoBrokerReachable):
                log.warning("%s; trying again for up to %.0f s", error, max(1, (until_ms - now_ms) / 1_000))
        return goes_on

    async def pause(self) -> None:
        """Wait before the next attempt, and for longer before each further one."""
        await asyncio.sleep(self._delay_ms / 1_000)
        self._failures += 1
        self._delay_ms = self._backoff.delay_ms(self._failures)
