"""The changes of one replica's log, one at a time and in the order in which they were asked for.

A change waits for the disk now and then (see kraft/log/change.py). Its steps are run like syncs, and between them, by
whoever syncs the log's directory: so no sync of a file runs beside another, and an error that the disk tells once is
not missed. Without `off_loop` every change is made where it is asked for, as simulations do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

from kraft.log.append_work import AppendMustWait
from kraft.log.change import Change, ChangeUnderWay, FileStep, run_now
from kraft.model.errors import ErrorCode, Refusal

Result = TypeVar("Result")


class ChangeOutcome(Generic[Result]):
    """How a change ends."""

    def __init__(self) -> None:
        self.is_done = False
        self._result: Result | None = None
        self._refusal: Refusal | None = None
        self._callbacks: list[Callable[[], None]] = []

    def result(self) -> Result:
        """Raises the Refusal that ended it."""
        assert self.is_done, "the change is not over"
        if self._refusal is not None:
            raise self._refusal
        return self._result  # type: ignore[return-value]  # Set when it ended, whatever its type.

    def when_done(self, callback: Callable[[], None]) -> None:
        """Called once, at once if it is over."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> Result:
        """Raises the Refusal that ended it."""
        over = asyncio.Event()
        self.when_done(over.set)
        await over.wait()
        return self.result()

    def end(self, result: Result | None, refusal: Refusal | None) -> None:
        self.is_done, self._result, self._refusal = True, result, refusal
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class LogIsChanging(AppendMustWait):
    """Nothing was appended: the log takes no records before a change is over, which `outcome` tells."""

    def __init__(self, outcome: ChangeOutcome[Any], *, is_own: bool) -> None:
        """`is_own`: the change is what this append needs, and if it is refused so is the append."""
        super().__init__(_Awaited(outcome, is_own))


class _Awaited:
    """Implements `AwaitedChange`."""

    def __init__(self, outcome: ChangeOutcome[Any], is_own: bool) -> None:
        self._outcome = outcome
        self._is_own = is_own

    async def wait(self) -> None:
        with nullcontext() if self._is_own else suppress(Refusal):
            await self._outcome.wait()


class StepTicket:
    """A step that is run in a thread. `lock` is held meanwhile; once it is `cancelled` a step is not begun."""

    def __init__(self, step: FileStep, lock: Lock) -> None:
        self.step = step
        self.cancelled = False
        self._lock = lock

    def run(self) -> None:
        with self._lock:
            if not self.cancelled:
                self.step.run()


class _Wanted(Generic[Result]):
    def __init__(
        self, make: Callable[[], Change[Result]], settle: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> None:
        self.make = make
        self.settle = settle
        self.is_wanted = is_wanted
        self.outcome = ChangeOutcome[Result]()


class LogChanges:
    def __init__(
        self,
        *,
        off_loop: bool,
        watching_storage: Callable[[], AbstractContextManager[None]],
        request_step: Callable[[], None],
        went_idle: Callable[[], None],
    ) -> None:
        """`request_step` asks for a call of `prepare_step`. `went_idle` is called whenever a change that took steps is
        over, before the next one begins.
        """
        self._off_loop = off_loop
        self._watching_storage = watching_storage
        self._request_step = request_step
        self._went_idle = went_idle
        self._queue: deque[_Wanted[Any]] = deque()
        self._current: tuple[_Wanted[Any], ChangeUnderWay[Any]] | None = None
        self._ticket: StepTicket | None = None
        self._lock = Lock()
        self._is_given_up = False

    # --- asking for changes ----------------------------------------------------------------------------------

    @property
    def under_way(self) -> ChangeOutcome[Any] | None:
        """Outcome of the last requested change that is not over; appends wait for it."""
        if self._queue:
            return self._queue[-1].outcome
        return None if self._current is None else self._current[0].outcome

    @property
    def is_changing(self) -> bool:
        """The log's state is in the middle of a change."""
        return self._current is not None

    @property
    def current(self) -> ChangeOutcome[Any] | None:
        """Outcome of the change that the log's state is in the middle of."""
        return None if self._current is None else self._current[0].outcome

    def make(
        self,
        change: Callable[[], Change[Result]],
        *,
        settle: Callable[[], None] = lambda: None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> ChangeOutcome[Result]:
        """Makes the change in its turn, unless it is not wanted any more by then. `settle` is called when it is over,
        however it ended, before the outcome is told.

        Raises the Refusal of a change that ends where it is asked for.
        """
        wanted = _Wanted(change, settle, is_wanted)
        if self._is_given_up:
            # Its files may be open still, for a step that is being run, but nobody would run another one.
            self._end(wanted, None, _closed())
        elif self._off_loop:
            self._queue.append(wanted)
            self._begin_next()
        else:
            self._make_now(wanted)
        if wanted.outcome.is_done:
            wanted.outcome.result()
        return wanted.outcome

    def _make_now(self, wanted: _Wanted[Any]) -> None:
        result, refusal = self._watched(lambda: run_now(wanted.make()))
        self._end(wanted, result, refusal)

    def _begin_next(self) -> None:
        while self._current is None and self._queue:
            wanted = self._queue.popleft()
            if not wanted.is_wanted():
                self._end(wanted, None, _role_changed())
                continue
            under_way, refusal = self._watched(partial(_begun, wanted))
            if refusal is not None:
                self._end(wanted, None, refusal)
            elif under_way.step is None:
                self._end(wanted, under_way.result, None)
            else:
                self._current = wanted, under_way
                self._request_step()

    def _watched(self, advance: Callable[[], Any]) -> tuple[Any, Refusal | None]:
        try:
            with self._watching_storage():
                return advance(), None
        except Refusal as refusal:
            return None, refusal

    def _end(self, wanted: _Wanted[Any], result: Any, refusal: Refusal | None) -> None:
        try:
            wanted.settle()
        finally:
            wanted.outcome.end(result, refusal)

    # --- steps -----------------------------------------------------------------------------------------------

    def prepare_step(self) -> StepTicket | None:
        """The next step of the change that is under way, to be run in any thread; None when there is none."""
        if self._current is None or self._ticket is not None:
            return None
        step = self._current[1].step
        assert step is not None, "a change that is over is not under way"
        self._ticket = StepTicket(step, self._lock)
        return self._ticket

    def complete_step(self, ticket: StepTicket) -> None:
        """It was run, or cancelled."""
        assert ticket is self._ticket, "this is not the step that was prepared last"
        self._ticket = None
        if self._current is None or ticket.cancelled:
            return
        wanted, under_way = self._current
        _, refusal = self._watched(under_way.resume)
        if not self.is_changing:
            # The disk has failed, and the replica was closed.
            return
        if refusal is None and under_way.step is not None:
            self._request_step()
            return
        self._current = None
        self._end(wanted, None if refusal is not None else under_way.result, refusal)
        self._went_idle()
        self._begin_next()

    # --- the end of the replica ------------------------------------------------------------------------------

    def finish(self) -> Change[None]:
        """Makes what is under way or waits. Nobody else may run a step any more."""
        while self._current is not None:
            # One that was run, and of which nobody came to hear, is not run again.
            ticket = self._ticket or self.prepare_step()
            assert ticket is not None, "a change that is under way has a step"
            if not ticket.step.has_run:
                yield ticket.run
            self.complete_step(ticket)

    def give_up(self) -> bool:
        """Nothing more is done to the log. False while a step of it is being run: its files may not be closed yet."""
        self._is_given_up = True
        waiting = [*self._queue]
        self._queue.clear()
        if self._current is not None:
            wanted, under_way = self._current
            self._current = None
            under_way.cancel()
            waiting.insert(0, wanted)
        for wanted in waiting:
            wanted.outcome.end(None, _closed())
        if self._ticket is not None:
            self._ticket.cancelled = True
        return self._ticket is None

    @property
    def files_in_use(self) -> Lock:
        """Held while a step is run."""
        return self._lock


def _begun(wanted: _Wanted[Any]) -> ChangeUnderWay[Any]:
    return ChangeUnderWay(wanted.make())


def _role_changed() -> Refusal:
    return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica's role has changed")


def _closed() -> Refusal:
    return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica is closed")
