"""Event loop of the synchronous clients: one background thread for each process, started at first use.

Threads do not survive a fork, so a forked process starts its own. Connections opened before a fork do not work after
it; a client must be created in the process that uses it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from kraft.client.model.errors import ClientClosed
from kraft.model.callbacks import Callback

Result = TypeVar("Result")
Argument = TypeVar("Argument")

_UNWINDING_MAX_S: Final = 5.0


class LoopThread:
    """An event loop in a daemon thread; its methods may be called from any other thread.

    They take functions that return coroutines, and call them in its thread. A coroutine that a caller had made would
    never be awaited if Ctrl-C came before it was handed over, or if the process ended before the loop took it.
    """

    def __init__(self) -> None:
        self.is_inherited = False
        """True in a forked process, which has the object without the thread."""
        self._unwatched: set[asyncio.Task[object]] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="kraft-client", daemon=True)
        self._thread.start()

    def is_of_this_process(self) -> bool:
        return not self.is_inherited

    def is_current(self) -> bool:
        """True in the thread of the loop itself, such as in a callback of a record."""
        return threading.get_ident() == self._thread.ident

    def check_process(self) -> None:
        """Raise ClientClosed in a forked process."""
        if not self.is_of_this_process():
            raise ClientClosed("this client was created before the process was forked; create one in the new process")

    def check_may_wait(self) -> None:
        """Raise RuntimeError in the thread of the loop, which would wait for itself."""
        if self.is_current():
            raise RuntimeError(
                "a callback runs in the thread of the clients' event loop, which cannot wait for itself; make this "
                "call in another thread"
            )

    def start(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Run the coroutine that `work` returns on the loop. The caller will wait for it."""
        self.check_process()
        self.check_may_wait()
        future: Future[Result] = Future()
        self.loop.call_soon_threadsafe(_begin, self.loop, work, future)
        return future

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run the coroutine on the loop and return its result. If the caller is interrupted, the coroutine is too."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run_soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the coroutine on the loop; nobody waits for it."""

        def start() -> None:
            task = self.loop.create_task(work())
            self._unwatched.add(task)
            task.add_done_callback(self._unwatched.discard)

        self.loop.call_soon_threadsafe(start)

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.check_process()
        self.loop.call_soon_threadsafe(callback)

    def iterate(self, items: AsyncGenerator[Result, None]) -> Iterator[Result]:
        """Yield the items of an asynchronous generator; its next step runs while the caller works on an item."""
        step = self.start(partial(_step, items))
        try:
            while found := step.result():
                step = self.start(partial(_step, items))
                yield found[0]
        finally:
            step.cancel()
            if self.is_of_this_process():
                self.run(partial(_close, items))


class CallingThread:
    """Runs coroutines on the loop, and their callbacks in the thread that waits for them."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._calls: list[SimpleQueue[Callback | None]] = []
        """For each coroutine that is waited for, the callbacks to run; None once it has ended."""

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run the coroutine and return its result, as `LoopThread.run` does. A callback may run another coroutine."""
        calls: SimpleQueue[Callback | None] = SimpleQueue()
        self._calls.append(calls)
        try:
            future = self._thread.start(work)
            try:
                future.add_done_callback(lambda _: calls.put(None))
                while (call := calls.get()) is not None:
                    call()
                return future.result()
            except BaseException:
                future.cancel()
                raise
        finally:
            self._calls.remove(calls)

    def callback(self, function: Callable[[Argument], object]) -> Callable[[Argument], Awaitable[None]]:
        """Return a function for coroutines of `run` that has `function` called in the thread that waits for them."""

        async def handed_over(argument: Argument) -> None:
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[Exception | None] = loop.create_future()

            def end(error: Exception | None) -> None:
                if not ended.done():
                    ended.set_result(error)

            def call() -> None:
                error: Exception | None = None
                try:
                    function(argument)
                except Exception as raised:  # noqa: BLE001  It is raised where the callback is awaited.
                    error = raised
                loop.call_soon_threadsafe(end, error)

            self._calls[-1].put(call)
            if (error := await ended) is not None:
                raise error

        return handed_over


_shared: LoopThread | None = None
_guard = threading.Lock()


def shared_loop() -> LoopThread:
    """Return the loop thread of this process. Clients share it, so that ten of them do not need ten threads."""
    # One per process, because gRPC's asyncio API works with one event loop in a process.
    global _shared, _guard
    if _shared is not None and not _shared.is_of_this_process():
        # Another thread of the parent may have held the lock at the moment of the fork.
        _shared, _guard = None, threading.Lock()
    with _guard:
        if _shared is None:
            _shared = LoopThread()
        return _shared


def check_may_wait() -> None:
    """Raise RuntimeError in the thread of the clients' event loop, which would wait for itself."""
    if _shared is not None:
        _shared.check_may_wait()


def is_loop_thread() -> bool:
    """True in the thread of the clients' event loop."""
    return _shared is not None and _shared.is_current()


def _disown() -> None:
    if _shared is not None:
        _shared.is_inherited = True


os.register_at_fork(after_in_child=_disown)


def _begin(
    loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, Result]], future: Future[Result]
) -> None:
    """Run the coroutine, unless its future is cancelled by now; each of the two ends with the other."""
    if future.cancelled():
        return
    try:
        task = loop.create_task(work())
    except Exception as error:  # noqa: BLE001  It is raised where the result is waited for.
        if future.set_running_or_notify_cancel():
            future.set_exception(error)
        return

    def cancel_too(done: Future[Result]) -> None:
        if done.cancelled():
            loop.call_soon_threadsafe(task.cancel)

    def end(done: asyncio.Task[Result]) -> None:
        if done.cancelled():
            future.cancel()
        error = None if done.cancelled() else done.exception()
        if not future.set_running_or_notify_cancel():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())

    future.add_done_callback(cancel_too)
    task.add_done_callback(end)


async def _step(items: AsyncGenerator[Result, None]) -> tuple[Result] | None:
    """Return the next item, or None after the last one."""
    async for item in items:
        return (item,)
    return None


async def _close(items: AsyncGenerator[Any, None]) -> None:
    """Close a generator; retried while a cancelled step of it still unwinds, because it cannot be closed then."""
    async with asyncio.timeout(_UNWINDING_MAX_S):
        while True:
            try:
                await items.aclose()
            except RuntimeError:
                await asyncio.sleep(0.001)
            else:
                return
