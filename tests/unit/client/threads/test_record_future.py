"""The futures of records are those of `concurrent.futures` for everybody who waits for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, as_completed, wait
from contextlib import contextmanager
from traceback import walk_tb

import pytest

from kraft.client.model.values import RecordMetadata
from kraft.client.sans_io.task_receipt import StoredRecords
from kraft.client.threads import record_future
from kraft.client.threads.record_future import RecordFuture, finish_records
from tests.support.waiting import until


def finish(*futures: RecordFuture) -> None:
    finish_records(futures, StoredRecords("orders", 1, 40, [7] * len(futures)))


@contextmanager
def finished_when_awaited(*futures: RecordFuture) -> Iterator[None]:
    """Finish them in another thread, once somebody waits for the last of them."""

    def finish_then() -> None:
        until(lambda: futures[-1]._has_condition, "nobody waits")
        finish(*futures)

    thread = threading.Thread(target=finish_then)
    thread.start()
    yield
    thread.join()


def test_a_finished_future_has_the_place_of_its_record() -> None:
    first, second = RecordFuture(), RecordFuture()
    assert isinstance(first, Future)
    assert (first.done(), first.running(), first.cancelled()) == (False, True, False)
    finish(first, second)
    assert second.result() == second.result(0) == RecordMetadata("orders", 1, 41, 7)
    assert (first.done(), first.running(), first.cancelled(), first.exception()) == (True, False, False, None)
    assert "finished" in repr(first)


def test_an_unknown_offset_is_minus_one() -> None:
    one, other = RecordFuture(), RecordFuture()
    finish_records([one, other], StoredRecords("orders", 1, -1, [7, 8]))
    assert other.result() == RecordMetadata("orders", 1, -1, 8)


def test_a_finished_future_keeps_its_result() -> None:
    one = RecordFuture()
    finish(one)
    finish_records([one], StoredRecords("orders", 2, 90, [8]))
    assert one.result() == RecordMetadata("orders", 1, 40, 7)


def test_it_cannot_be_cancelled() -> None:
    one = RecordFuture()
    assert not one.cancel()
    finish(one)
    assert not one.cancel()
    assert one.result().offset == 40


def test_a_thread_that_waits_is_woken_by_a_result_and_by_an_error() -> None:
    one, other = RecordFuture(), RecordFuture()
    with finished_when_awaited(one):
        assert one.result(60).offset == 40
    with pytest.raises(concurrent.futures.TimeoutError):
        other.result(0.001)
    with pytest.raises(concurrent.futures.TimeoutError):
        other.exception(0.001)
    other.set_exception(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        other.result()
    assert isinstance(other.exception(), ZeroDivisionError)


def test_many_are_waited_for_together() -> None:
    futures = [RecordFuture() for _ in range(5)]
    finish(futures[0])
    with finished_when_awaited(*futures):
        assert wait(futures, 60).not_done == set()
    futures = [RecordFuture() for _ in range(5)]
    finish(futures[4])
    assert wait(futures, 60, FIRST_COMPLETED).done == {futures[4]}
    finish(*futures)
    assert set(as_completed(futures, 60)) == set(futures)


def test_wait_and_finish_at_the_same_time_lose_nothing() -> None:
    for _ in range(200):
        futures = [RecordFuture() for _ in range(20)]
        finishing = threading.Thread(target=finish, args=futures)
        finishing.start()
        assert wait(futures, 60).not_done == set()
        assert set(as_completed(futures, 60)) == set(futures)
        finishing.join()


async def test_a_task_may_wait_for_it() -> None:
    one = RecordFuture()
    waiting = asyncio.wrap_future(one)
    finish(one)
    assert (await waiting).offset == 40


def test_callbacks_are_called_once_in_their_order_also_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    called: list[tuple[str, int]] = []
    one, other = RecordFuture(), RecordFuture()
    one.add_done_callback(lambda done: called.append(("first", done.result().offset)))
    one.add_done_callback(lambda _: 1 // 0)
    one.add_done_callback(lambda done: called.append(("second", done.result().offset)))
    other.add_done_callback(lambda done: called.append(("other", done.result().offset)))
    finish(one, other)
    one.add_done_callback(lambda done: called.append(("late", done.result().offset)))
    finish(one, other)
    assert called == [("first", 40), ("second", 40), ("other", 41), ("late", 40)]
    assert [each.name for each in caplog.records] == ["kraft.client"]


def test_callbacks_of_a_batch_keep_the_order_of_its_records_also_if_somebody_waits_for_one() -> None:
    called: list[int] = []
    futures = [RecordFuture() for _ in range(4)]
    for each in futures:
        each.add_done_callback(lambda done: called.append(done.result().offset))
    with pytest.raises(concurrent.futures.TimeoutError):
        futures[1].result(0)
    finish(*futures)
    assert called == [40, 41, 42, 43]


def test_an_error_calls_the_callbacks() -> None:
    errors: list[BaseException | None] = []
    one = RecordFuture()
    one.add_done_callback(lambda done: errors.append(done.exception()))
    one.set_exception(ZeroDivisionError())
    assert [type(error) for error in errors] == [ZeroDivisionError]
    finish(one)
    assert isinstance(one.exception(), ZeroDivisionError)


def test_callbacks_that_are_added_while_the_future_ends_are_called_once() -> None:
    for _ in range(200):
        one, called = RecordFuture(), deque[RecordFuture]()
        adding = [threading.Thread(target=one.add_done_callback, args=(called.append,)) for _ in range(3)]
        for thread in adding:
            thread.start()
        finish(one)
        for thread in adding:
            thread.join()
        assert list(called) == [one] * 3


def test_a_callback_that_a_thread_is_just_adding_is_called_by_the_thread_that_finishes_the_future(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    future = RecordFuture()
    called: list[Future[RecordMetadata]] = []
    # Waited for before, as the guard is held to make the condition, too.
    with pytest.raises(TimeoutError):
        future.exception(0)

    class HeldByAnother:
        """The guard, which the other thread, for which the future was not done yet, leaves once it has added."""

        def __enter__(self) -> None:
            future._callback = called.append

        def __exit__(self, *_: object) -> None:
            """Nothing is left to do."""

    monkeypatch.setattr(record_future, "_guard", HeldByAnother())
    future.set_exception(OSError("down"))
    assert called == [future]


def test_a_forked_process_can_use_futures_although_another_thread_held_the_guard() -> None:
    with record_future._guard:
        child = os.fork()
        if child == 0:
            one = RecordFuture()
            finish(one)
            os._exit(0 if one.result(1).offset == 40 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_raising_an_error_that_records_share_does_not_collect_the_frames_of_each() -> None:
    error = ZeroDivisionError()
    for _ in range(100):
        one = RecordFuture()
        one.set_exception(error)
        with pytest.raises(ZeroDivisionError) as raised:
            one.result()
        assert len(list(walk_tb(raised.tb))) < 5


def test_a_failed_future_has_no_result_beside_its_error() -> None:
    one = RecordFuture()
    one.set_exception(ZeroDivisionError())
    # Newer versions of Python read both at once.
    assert (one._state, one._result) == ("FINISHED", None)
    assert "ZeroDivisionError" in repr(one)


def test_a_thread_that_holds_the_guard_may_use_futures_as_in_a_signals_handler() -> None:
    done = threading.Event()

    def use() -> None:
        one = RecordFuture()
        with record_future._guard:
            one.add_done_callback(lambda _: done.set())
            finish(one)

    threading.Thread(target=use, daemon=True).start()
    assert done.wait(30)


def test_an_interrupt_in_a_callback_reaches_the_thread_that_added_it_to_a_finished_future() -> None:
    future = RecordFuture()
    future.set_exception(ValueError("refused"))

    def interrupted(_: Future[RecordMetadata]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        future.add_done_callback(interrupted)
    assert isinstance(future.exception(0), ValueError)
