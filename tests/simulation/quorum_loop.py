"""An event loop on a virtual clock: nothing waits, and the same callbacks run in the same order every time.

Every callback belongs to the life of a process, or to the world around the processes: asyncio runs a callback in the
context that scheduled it. So the callbacks of a killed process no longer run, and those of a frozen one run later.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVarTuple, Unpack

from tests.support.disks.sim_disk import PowerFailure


class Life:
    """A process from its start to its death."""

    def __init__(self, node_id: int, clock_rate: float) -> None:
        self.node_id = node_id
        self.clock_rate = clock_rate
        """Seconds of its own clock per second of virtual time."""
        self.is_dead = False
        self.frozen_until_s = 0.0


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


Ts = TypeVarTuple("Ts")


class _Call:
    """A callback that waits for its turn."""

    __slots__ = ("arguments", "callback", "context", "handle", "life")

    def __init__(
        self, handle: asyncio.Handle, callback: Callable[..., object], arguments: tuple[Any, ...], context: Context
    ) -> None:
        self.handle = handle
        self.callback = callback
        self.arguments = arguments
        self.context = context
        self.life = context.get(LIFE)


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop for code without sockets, files and threads."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.callbacks_run = 0
        self.problems: list[str] = []
        """Errors that asyncio reports to its exception handler."""
        self._soon: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._scheduled_count = 0

    def run_until(self, deadline_s: float, after_each: Callable[[Life | None], bool]) -> bool:
        """Run what is due before the deadline. `after_each` gets the life of each callback that ran; if it
        returns True, the run ends. Return whether it did."""
        asyncio._set_running_loop(self)
        try:
            while (call := self._next(deadline_s)) is not None:
                if self._run(call) and after_each(call.life):
                    return True
            return False
        finally:
            asyncio._set_running_loop(None)

    def _next(self, deadline_s: float) -> _Call | None:
        if self._soon:
            return self._soon.popleft()
        if not self._timers or self._timers[0][0] > deadline_s:
            self.now_s = max(self.now_s, deadline_s)
            return None
        when_s, _, call = heapq.heappop(self._timers)
        self.now_s = max(self.now_s, when_s)
        return call

    def _run(self, call: _Call) -> bool:
        """Run a callback if its process can run; return whether it ran."""
        life = call.life
        if call.handle.cancelled() or (life is not None and life.is_dead):
            return False
        if life is not None and life.frozen_until_s > self.now_s:
            self._put(life.frozen_until_s, call)
            return False
        self.callbacks_run += 1
        # After a power failure the disk is off, and the cluster notices that.
        with suppress(PowerFailure):
            call.context.run(call.callback, *call.arguments)
        return True

    # --- asyncio's interface ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._soon.append(_Call(handle, callback, args, context or copy_context()))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._put(when, _Call(timer, callback, args, context or copy_context()))
        return timer

    def _put(self, when_s: float, call: _Call) -> None:
        self._scheduled_count += 1
        heapq.heappush(self._timers, (when_s, self._scheduled_count, call))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # The tasks of a killed process stay pending forever, and nobody retrieves its futures' exceptions.
        if isinstance(context.get("task"), asyncio.Task) and not context["task"].done():
            return
        if "Future exception was never retrieved" not in context["message"]:
            self.problems.append(f"{context['message']}: {context.get('exception')!r}")
