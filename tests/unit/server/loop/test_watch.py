from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from kraft.server.loop import watch
from kraft.server.loop.watch import HELD_MS_MIN, LongestHold, LoopFacts, LoopHold, watch_loop
from tests.support.virtual_time import run_virtually


def noted(holds: LongestHold, held_ms: float, now_s: float) -> float | None:
    reported = holds.note(LoopHold(held_ms, 1.0, 2.0), now_s)
    return None if reported is None else reported.held_ms


def test_a_short_hold_is_not_reported() -> None:
    holds = LongestHold(held_ms_min=100, report_interval_s=10)
    assert [noted(holds, ms, now_s) for now_s, ms in enumerate((3.0, 99.9, 0.0))] == [None, None, None]


def test_a_report_is_of_the_longest_hold_since_the_one_before_and_follows_no_sooner_than_it_may() -> None:
    holds = LongestHold(held_ms_min=100, report_interval_s=10)
    assert noted(holds, 150, 1) == 150
    assert noted(holds, 300, 2) is None
    assert noted(holds, 200, 10.9) is None
    assert noted(holds, 1, 11) == 300
    assert noted(holds, 1, 30) is None
    assert noted(holds, 101, 31) == 101


def test_a_blocked_loop_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SAMPLE_S", 0.001)

    async def scenario() -> None:
        watching = asyncio.create_task(watch_loop())
        await asyncio.sleep(0.01)
        time.sleep(0.15)  # noqa: ASYNC251  This is what is watched for.
        await asyncio.sleep(0.01)
        watching.cancel()

    with capture_logs() as logs:
        asyncio.run(scenario())
    assert {entry["event"] for entry in logs} == {"event loop blocked"}
    assert logs[0]["held_ms"] >= 100
    assert set(logs[0]) >= {"loop_cpu_ms", "process_cpu_ms"}


def test_a_long_pause_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SAMPLE_S", 0.001)
    monkeypatch.setattr(watch, "PAUSE_MS", 100)

    async def scenario() -> None:
        watching = asyncio.create_task(watch_loop())
        await asyncio.sleep(0.01)
        time.sleep(0.15)  # noqa: ASYNC251  The node computes nothing meanwhile.
        await asyncio.sleep(0.01)
        watching.cancel()

    with capture_logs() as logs:
        asyncio.run(scenario())
    assert (logs[0]["event"], logs[0]["log_level"]) == ("node paused", "warning")


def test_a_watch_that_was_cancelled_takes_no_more_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_s: list[float] = []
    monkeypatch.setattr(LongestHold, "note", lambda _holds, _hold, now_s: taken_s.append(now_s))

    async def scenario() -> int:
        watching = asyncio.create_task(watch_loop())
        await asyncio.sleep(10 * watch.SAMPLE_S)
        watching.cancel()
        await asyncio.sleep(0)
        taken = len(taken_s)
        await asyncio.sleep(10 * watch.SAMPLE_S)
        return taken

    assert run_virtually(scenario()) == len(taken_s) == 10


def test_the_watch_goes_on_after_a_line_that_could_not_be_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_s: list[float] = []

    def note(_holds: LongestHold, _hold: LoopHold, now_s: float) -> None:
        taken_s.append(now_s)
        raise OSError("no standard error")

    monkeypatch.setattr(LongestHold, "note", note)

    async def scenario() -> list[object]:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        watching = asyncio.create_task(watch_loop())
        await asyncio.sleep(3.5 * watch.SAMPLE_S)
        watching.cancel()
        await asyncio.sleep(0)
        return failures

    assert len(run_virtually(scenario())) == len(taken_s) == 3


def _seen(facts: LoopFacts, now_s: float, held_ms: float, cpu_ms: float = 0.0) -> None:
    facts.note(LoopHold(held_ms=held_ms, loop_cpu_ms=cpu_ms, process_cpu_ms=cpu_ms), now_s)


def test_long_holds_are_counted_and_short_ones_are_not() -> None:
    facts = LoopFacts()
    for held_ms in (HELD_MS_MIN - 1, HELD_MS_MIN, 300.0):
        _seen(facts, 1, held_ms)
    assert facts.holds == 2
    assert facts.held_s == pytest.approx(0.4)


def test_the_longest_hold_is_that_of_this_minute_and_the_one_before() -> None:
    facts, found = LoopFacts(), []
    for now_s, held_ms in ((59, 50.0), (61, 20.0), (119, 10.0), (120, 5.0), (400, 1.0)):
        _seen(facts, now_s, held_ms)
        found.append(round(facts.longest_s * 1_000))
    assert found == [50, 50, 50, 20, 1]


def test_the_idle_share_is_what_the_thread_did_not_compute() -> None:
    facts = LoopFacts()
    _seen(facts, 0, 0)
    assert facts.idle_share is None
    for second in range(1, 11):
        _seen(facts, second, 0, cpu_ms=250)
    assert facts.idle_share == pytest.approx(0.75)
    assert facts.cpu_s == pytest.approx(2.5)
    _seen(facts, 11, 0, cpu_ms=20_000)
    assert facts.idle_share == 0
