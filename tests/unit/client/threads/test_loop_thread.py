"""What is handed to the event loop's thread: run, cancelled, or never begun."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from kraft.client.threads.client import ThreadClient, on_loop, waiting
from kraft.client.threads.loop_thread import CallingThread, shared_loop


class Counting:
    """Stands for an asyncio client."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self) -> int:
        self.calls += 1
        return self.calls

    def now(self) -> int:
        return self.calls


class Counter(ThreadClient[Counting]):
    call = waiting(Counting.call)
    now = on_loop(Counting.now)


def warned_while(work: Callable[[], object]) -> list[str]:
    """Return the warnings of coroutines that the work leaves behind. Ctrl-C comes meanwhile."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            work()
        gc.collect()
    # Others are of what earlier tests left open.
    return [str(each.message) for each in found if each.category is RuntimeWarning]


def test_an_interrupt_before_the_loop_has_the_work_leaves_no_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    counter = Counter(Counting())
    assert (counter.call(), counter.now()) == (1, 1)
    caller = CallingThread(shared_loop())
    with monkeypatch.context() as patched:
        patched.setattr(shared_loop().loop, "call_soon_threadsafe", interrupted)
        assert warned_while(counter.call) == []
        assert warned_while(counter.now) == []
        assert warned_while(lambda: caller.run(counter._client.call)) == []
        assert warned_while(lambda: shared_loop().run_soon(counter._client.call)) == []
    assert counter.call() == 2


def test_what_is_cancelled_before_it_begins_is_not_begun_and_later_is_cancelled() -> None:
    gate, begun = threading.Event(), threading.Event()
    counting = Counting()

    async def wait_for_ever() -> None:
        begun.set()
        await shared_loop().loop.create_future()

    shared_loop().call_soon(lambda: gate.wait(60))
    unbegun = shared_loop().start(counting.call)
    assert unbegun.cancel()
    gate.set()
    running = shared_loop().start(wait_for_ever)
    assert begun.wait(60)
    assert running.cancel()
    with pytest.raises(CancelledError):
        running.result(60)
    assert counting.calls == 0


def test_one_that_is_cancelled_on_the_loop_is_cancelled_for_its_caller() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledError):
        shared_loop().start(give_up).result(60)


def test_arguments_that_do_not_fit_are_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'times'"):
        Counter(Counting()).call(times=2)  # type: ignore[call-arg]  # It is wrong on purpose.


def test_one_that_ends_all_the_same_after_it_was_cancelled_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def end_all_the_same() -> int:
        begun.set()
        try:
            await shared_loop().loop.create_future()
        except asyncio.CancelledError:
            # What is called at its end comes before this.
            shared_loop().loop.call_soon(shared_loop().loop.call_soon, ended.set)
        return 1

    running = shared_loop().start(end_all_the_same)
    assert begun.wait(60)
    assert running.cancel()
    assert ended.wait(60)
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
