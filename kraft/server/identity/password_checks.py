"""Passwords that clients of PLAIN send, compared with the users' credentials, which takes milliseconds of CPU each.

Those that wait are late by what the checks before them took, so one that fails takes the same work for every user.

One is checked at a time, in a thread. Clients' addresses take turns, so that one that tries many passwords delays the
others by one check.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from kraft.model.addresses import AddressTurns
from kraft.model.callbacks import Condition

_Waiting: TypeAlias = tuple[asyncio.Future[bool], Condition]


class PasswordChecks:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="password-checks")
        self._waiting: AddressTurns[_Waiting] = AddressTurns()
        self._running: asyncio.Task[None] | None = None

    async def check(self, address: str, is_right: Condition) -> bool:
        """Return what `is_right` returns in the thread, once it is the turn of the client's address."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(address, (outcome, is_right))
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="password checks")
        return await outcome

    def close(self) -> None:
        """Check nothing more. A check that has begun ends in the thread."""
        if self._running is not None:
            self._running.cancel()
        for outcome, _ in self._waiting.take_all():
            outcome.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._carry_out(*self._waiting.popleft())
        finally:
            self._running = None

    async def _carry_out(self, outcome: asyncio.Future[bool], is_right: Condition) -> None:
        if outcome.done():
            # Its client is gone.
            return
        checked = asyncio.get_running_loop().run_in_executor(self._thread, is_right)
        try:
            await asyncio.wait([checked])
        except asyncio.CancelledError:
            outcome.cancel()
            raise
        if not outcome.done():
            _copy(checked, outcome)


def _copy(checked: asyncio.Future[bool], outcome: asyncio.Future[bool]) -> None:
    error = checked.exception()
    if error is None:
        outcome.set_result(checked.result())
    else:
        outcome.set_exception(error)
