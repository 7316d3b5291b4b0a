"""Requests that wait: produces for their replicas, fetches for records.

Named as in Kafka. Nothing in here has a clock: each waiting request has its own deadline.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset


class _Parked(Struct, frozen=True, eq=False):
    required_offset: Offset
    outcome: asyncio.Future[ErrorCode]


class ProducePurgatory:
    """Waiting acks=all produces of one partition, in the order of the offsets that they wait for."""

    def __init__(self) -> None:
        self._parked: deque[_Parked] = deque()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, required_offset: Offset) -> asyncio.Future[ErrorCode]:
        """Return a future that is done when every record below `required_offset` is committed, or the wait has failed.

        The waiting request cancels it at its deadline.
        """
        parked = _Parked(required_offset, asyncio.get_running_loop().create_future())
        if not self._parked or self._parked[-1].required_offset <= required_offset:
            self._parked.append(parked)
        else:
            # A duplicate: its records were appended before those of others that wait already.
            self._parked.insert(bisect_right(self._parked, required_offset, key=_required_offset), parked)
        parked.outcome.add_done_callback(lambda outcome: self._forget(parked) if outcome.cancelled() else None)
        return parked.outcome

    def complete(self, outcome_at: Callable[[Offset], ErrorCode | None]) -> None:
        """Complete the produces for which `outcome_at` returns an outcome; None: it still waits."""
        waiting: deque[_Parked] = deque()
        for parked in self._parked:
            outcome = outcome_at(parked.required_offset)
            if outcome is None and not parked.outcome.done():
                waiting.append(parked)
            else:
                _settle(parked, outcome)
        self._parked = waiting

    def complete_below(self, high_watermark: Offset) -> None:
        """Complete the produces below the new high watermark, looking at no others but the first of the rest."""
        while self._parked and self._parked[0].required_offset <= high_watermark:
            _settle(self._parked.popleft(), ErrorCode.NONE)

    def abandon(self, outcome: ErrorCode) -> None:
        """Complete all produces: this broker no longer leads in the epoch in which the records were appended."""
        while self._parked:
            _settle(self._parked.popleft(), outcome)

    def _forget(self, parked: _Parked) -> None:
        # It may have been completed between the cancellation and this call.
        with suppress(ValueError):
            self._parked.remove(parked)


def _required_offset(parked: _Parked) -> Offset:
    return parked.required_offset


def _settle(parked: _Parked, outcome: ErrorCode | None) -> None:
    # A waiter whose deadline passed has cancelled its future.
    if outcome is not None and not parked.outcome.done():
        parked.outcome.set_result(outcome)


class Watcher(Protocol):
    def notified(self) -> None:
        """Note the change. Must not add or discard watchers."""


class Notifier:
    """Tells every watcher when its subject has changed."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    def notify(self) -> None:
        for watcher in self._watchers:
            watcher.notified()

    def add(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)

    def discard(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)


class NotifierSubscription:
    """Calls a function at each notification, until it is cancelled."""

    def __init__(self, notifier: Notifier, call: Callback) -> None:
        self._notifier = notifier
        self.notified = call
        notifier.add(self)

    def cancel(self) -> None:
        self._notifier.discard(self)


class Watch:
    """Watches several notifiers, from the moment it is entered: `with Watch(...) as watch`.

    Call `again` before each check of the state, so that a change between the check and `wait` is not missed.
    """

    def __init__(self, watched: Iterable[Notifier]) -> None:
        self._watched = list(watched)
        self.moved = asyncio.Event()

    def __enter__(self) -> Watch:
        for notifier in self._watched:
            notifier.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        for notifier in self._watched:
            notifier.discard(self)

    def notified(self) -> None:
        self.moved.set()

    def again(self) -> None:
        self.moved.clear()

    async def wait(self, timeout_s: float) -> bool:
        """Return True if a notifier has notified since `again`, False after `timeout_s`."""
        if self.moved.is_set() or timeout_s <= 0:
            return self.moved.is_set()
        try:
            async with asyncio.timeout(timeout_s):
                await self.moved.wait()
        except TimeoutError:
            return False
        return True
