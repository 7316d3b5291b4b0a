from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from kraft.quorum.disk_thread import OwnThread


def test_work_is_done_in_order_and_completed_on_the_loop() -> None:
    async def scenario() -> list[str]:
        thread, ended, all_ended = OwnThread("disk"), list[str](), asyncio.Event()

        def done(future: Future[str]) -> None:
            assert threading.current_thread() is threading.main_thread()
            ended.append(future.result())
            if len(ended) == 2:
                all_ended.set()

        thread.start(lambda: "first", done)
        thread.start(lambda: "second", done)
        await asyncio.wait_for(all_ended.wait(), 5)
        await thread.close()
        return ended

    assert asyncio.run(scenario()) == ["first", "second"]


def test_work_that_outlives_the_loop_is_no_error_of_the_node(caplog: pytest.LogCaptureFixture) -> None:
    thread, may_end = OwnThread("disk"), threading.Event()

    async def scenario() -> None:
        thread.start(lambda: may_end.wait(5), lambda _: None)

    asyncio.run(scenario())
    may_end.set()
    asyncio.run(thread.close())
    assert caplog.records == []


def test_a_close_waits_for_the_work_and_the_loop_goes_on() -> None:
    async def scenario() -> list[bool]:
        thread, may_end, ended = OwnThread("disk"), threading.Event(), list[bool]()
        thread.start(lambda: ended.append(may_end.wait(5)), lambda _: None)
        asyncio.get_running_loop().call_later(0.01, may_end.set)
        await thread.close()
        return ended

    assert asyncio.run(scenario()) == [True], "the loop let the work end"
