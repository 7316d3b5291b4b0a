"""Futures of records for threads: a program sends millions, and nearly never waits for a single one."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures._base import FINISHED as _FINISHED
from concurrent.futures._base import RUNNING as _RUNNING
from typing import Any

from kraft.client.model.values import RecordMetadata
from kraft.client.sans_io.task_receipt import StoredRecords
from kraft.client.threads.loop_thread import check_may_wait, is_loop_thread

_guard = threading.RLock()
"""Held to finish a future that has no condition, to make a condition, and to add a callback. A signal's handler, or a
finalizer, may use futures in a thread that holds it."""

log = logging.getLogger("kraft.client")
DoneCallback = Callable[[Future[RecordMetadata]], object]


class RecordFuture(Future[RecordMetadata]):
    """Future of one record. It is running from the start, so it cannot be cancelled.

    It is a single object until somebody waits, because so many exist at a time that the garbage collector would take
    longer over them than all the rest of `send`. The first wait makes its condition. From then on its state changes
    under the condition, as `concurrent.futures.wait` needs it; until then under a guard that all futures share.
    """

    _state = _RUNNING
    _exception: BaseException | None = None
    _stored: StoredRecords
    _row: int
    _has_condition = False
    _callback: DoneCallback | None = None
    _further_callbacks: list[DoneCallback] | None = None

    def __init__(self) -> None:
        """Leave out what Future.__init__ makes: attributes of the class stand for it, and `__getattr__`."""

    def __getattr__(self, name: str) -> Any:
        """Make what the methods of Future use, when they first do."""
        if name == "_condition":
            return self._made_condition()
        if name == "_result":
            # Future reads it beside the exception, so a future that has failed needs one, too.
            return self._stored.metadata(self._row) if "_stored" in self.__dict__ else None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _made_condition(self) -> threading.Condition:
        with _guard:
            if not self._has_condition:
                self._condition = threading.Condition()
                self._waiters = []
                self._has_condition = True
        return self._condition

    def done(self) -> bool:
        return self._state is _FINISHED

    def result(self, timeout: float | None = None) -> RecordMetadata:
        error = self.exception(timeout)
        if error is None:
            return self._stored.metadata(self._row)
        try:
            # The records of a batch share it: the frames of earlier raises would grow by some with each record.
            raise error.with_traceback(None)
        finally:
            # Breaks the cycle of the error, its frames, and the future in them.
            del self, error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state is _FINISHED:
            return self._exception
        if timeout is None or timeout > 0:
            check_may_wait()
        return super().exception(timeout)

    def add_done_callback(self, fn: DoneCallback) -> None:
        with _guard:
            if self._state is not _FINISHED:
                if self._callback is None:
                    self._callback = fn
                else:
                    self._further_callbacks = [*(self._further_callbacks or ()), fn]
                return
        self._call(fn)

    def _invoke_callbacks(self) -> None:
        """Call what was added until a method of Future finished this one."""
        with _guard:
            # A thread that found the future unfinished has added its callback by now.
            pass
        self._call_added()

    def _call_added(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._call(callback)
        further, self._further_callbacks = self._further_callbacks, None
        for each in further or ():
            self._call(each)

    def _call(self, callback: DoneCallback) -> None:
        try:
            callback(self)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_loop_thread():
                # Ctrl-C or an exit in a thread of the program. In ours it would end all clients of the process.
                raise
            log.exception("record callback failed: callback=%r", callback)


def finish_records(futures: Sequence[RecordFuture], stored: StoredRecords) -> None:
    """Give the futures the stored records as results, then call their callbacks. Finished ones stay as they are."""
    rest = []
    with _guard:
        for row, future in enumerate(futures):
            if future._state is _FINISHED:
                continue
            future._stored = stored
            future._row = row
            if future._has_condition:
                rest.append(future)
                continue
            future._state = _FINISHED
            if future._callback is not None:
                rest.append(future)
    for future in rest:
        if future._state is _FINISHED:
            future._call_added()
        else:
            future.set_result(stored.metadata(future._row))


def _renew_guard() -> None:
    global _guard
    _guard = threading.RLock()


# Another thread may hold the guard at the moment of the fork.
os.register_at_fork(after_in_child=_renew_guard)
