"""The changes of one replica's log, one at a time, in the order of the requests.

A change has steps that wait for the disk (see kraft/log/change.py). They run in the thread that syncs the log's
directory, between syncs: so no two syncs of a file run at the same time, and an error that the disk reports once is not
missed.
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
from kraft.log.change import Change, ChangeUnderWay, FileStep
from kraft.model.callbacks import Callback, Condition
from kraft.model.errors import ErrorCode, Refusal

Result = TypeVar("Result")

MakeChange = Callable[[], Change[Result]]
"""Makes a change, when its turn has come."""


class ChangeOutcome(Generic[Result]):
    """Outcome of a change: not done yet, a result or a Refusal."""

    def __init__(self) -> None:
        self.is_done = False
        self._result: Result | None = None
        self._refusal: Refusal | None = None
        self._callbacks: list[Callback] = []

    def result(self) -> Result:
        """Return the change's result, or raise the Refusal that ended it."""
        assert self.is_done, "the change is not over"
        if self._refusal is not None:
            raise self._refusal
        return self._result  # type: ignore[return-value]  # Set when it ended, whatever its type.

    def when_done(self, callback: Callback) -> None:
        """Call `callback` once at the end of the change, now if it is over."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    async def wait(self) -> Result:
        """Wait for the end of the change. Return its result, or raise the Refusal that ended it."""
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
    """Nothing was appended: the log takes no records before the change of `outcome` is over."""

    def __init__(self, outcome: ChangeOutcome[Any], *, is_own: bool) -> None:
        """`is_own`: this append needs the change, and is refused if the change is."""
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
    """A step to run in a thread, under `lock`. A `cancelled` step does nothing."""

    def __init__(self, step: FileStep, lock: Lock) -> None:
        self.step = step
        self.cancelled = False
        self._lock = lock

    def run(self) -> None:
        with self._lock:
            if not self.cancelled:
                self.step.run()


class _Requested(Generic[Result]):
    """A requested change."""

    def __init__(self, make: MakeChange[Result], settle: Callback, is_wanted: Condition) -> None:
        self.make = make
        self.settle = settle
        self.is_wanted = is_wanted
        self.outcome = ChangeOutcome[Result]()


class LogChanges:
    """Queue of the changes of one log."""

    def __init__(
        self,
        *,
        watching_storage: Callable[[], AbstractContextManager[None]],
        request_step: Callback,
        went_idle: Callback,
        must_wait: Condition = lambda: False,
    ) -> None:
        """`request_step` requests a call of `prepare_step`. `went_idle` is called at the end of each change that took
        steps, before the next one begins. While `must_wait` returns True, no change begins before `go_on`.
        """
        self._watching_storage = watching_storage
        self._request_step = request_step
        self._went_idle = went_idle
        self._must_wait = must_wait
        self._queue: deque[_Requested[Any]] = deque()
        self._current: tuple[_Requested[Any], ChangeUnderWay[Any]] | None = None
        self._ticket: StepTicket | None = None
        self._lock = Lock()
        self._is_abandoned = False

    # --- requests for changes --------------------------------------------------------------------------------

    @property
    def under_way(self) -> ChangeOutcome[Any] | None:
        """Outcome of the last requested change that is not over; appends wait for it."""
        if self._queue:
            return self._queue[-1].outcome
        return None if self._current is None else self._current[0].outcome

    @property
    def is_changing(self) -> bool:
        """True while the log's state is in the middle of a change."""
        return self._current is not None

    @property
    def current(self) -> ChangeOutcome[Any] | None:
        """Outcome of the change that the log's state is in the middle of."""
        return None if self._current is None else self._current[0].outcome

    def make(
        self, change: MakeChange[Result], *, settle: Callback = lambda: None, is_wanted: Condition = lambda: True
    ) -> ChangeOutcome[Result]:
        """Make the change after the earlier ones, if `is_wanted` still returns True then.

        `settle` is called at its end, successful or not, before the callbacks of the outcome. Raises the Refusal of a
        change that ends during this call.
        """
        request = _Requested(change, settle, is_wanted)
        if self._is_abandoned:
            # The files may still be open for a running step, but no further step would be run.
            self._end(request, None, _log_closed())
        else:
            self._queue.append(request)
            self._begin_next()
        if request.outcome.is_done:
            request.outcome.result()
        return request.outcome

    def go_on(self) -> None:
        """Begin the changes that waited."""
        self._begin_next()

    def _begin_next(self) -> None:
        while self._current is None and self._queue and not self._must_wait():
            request = self._queue.popleft()
            if not request.is_wanted():
                self._end(request, None, _role_changed())
                continue
            under_way, refusal = self._watched(partial(_begun, request))
            if refusal is not None:
                self._end(request, None, refusal)
            elif under_way.step is None:
                self._end(request, under_way.result, None)
            else:
                self._current = request, under_way
                self._request_step()

    def _watched(self, advance: Callable[[], Any]) -> tuple[Any, Refusal | None]:
        try:
            with self._watching_storage():
                return advance(), None
        except Refusal as refusal:
            return None, refusal

    def _end(self, request: _Requested[Any], result: Any, refusal: Refusal | None) -> None:
        try:
            request.settle()
        finally:
            request.outcome.end(result, refusal)

    # --- steps -----------------------------------------------------------------------------------------------

    def prepare_step(self) -> StepTicket | None:
        """Return the next step of the current change, to be run in any thread; None if there is none."""
        if self._current is None or self._ticket is not None:
            return None
        step = self._current[1].step
        assert step is not None, "the current change is not over"
        self._ticket = StepTicket(step, self._lock)
        return self._ticket

    def complete_step(self, ticket: StepTicket) -> None:
        """Continue the change after its step was run, or cancelled."""
        assert ticket is self._ticket, "this is not the latest prepared step"
        self._ticket = None
        if self._current is None or ticket.cancelled:
            return
        request, under_way = self._current
        _, refusal = self._watched(under_way.resume)
        if not self.is_changing:
            # The disk has failed, and the replica is closed.
            return
        if refusal is None and under_way.step is not None:
            self._request_step()
            return
        self._current = None
        self._end(request, None if refusal is not None else under_way.result, refusal)
        self._went_idle()
        self._begin_next()

    # --- the end of the replica ------------------------------------------------------------------------------

    def finish(self) -> Change[None]:
        """Make the current and all waiting changes. No other thread may run a step from now on."""
        self.go_on()
        while self._current is not None:
            # A step that was run, but not completed, is not run again.
            ticket = self._ticket or self.prepare_step()
            assert ticket is not None, "the current change has a step"
            if not ticket.step.has_run:
                yield ticket.run
            self.complete_step(ticket)

    def abandon(self) -> bool:
        """Make no further change. Return False while a step is running: the files may not be closed yet."""
        self._is_abandoned = True
        waiting = [*self._queue]
        self._queue.clear()
        if self._current is not None:
            request, under_way = self._current
            self._current = None
            under_way.cancel()
            waiting.insert(0, request)
        for request in waiting:
            request.outcome.end(None, _log_closed())
        if self._ticket is not None:
            self._ticket.cancelled = True
        return self._ticket is None

    @property
    def files_in_use(self) -> Lock:
        """Lock that is held while a step is running."""
        return self._lock


def _begun(request: _Requested[Any]) -> ChangeUnderWay[Any]:
    return ChangeUnderWay(request.make())


def _role_changed() -> Refusal:
    return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica's role has changed")


def _log_closed() -> Refusal:
    return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the replica is closed")
