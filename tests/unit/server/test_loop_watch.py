from __future__ import annotations

import asyncio
import time

import pytest
from structlog.testing import capture_logs

from kraft.server import loop_watch
from kraft.server.loop_watch import HeldTimes, watch_loop


def test_a_short_hold_is_not_reported() -> None:
    held = HeldTimes(held_ms_min=100, report_interval_s=10)
    assert [held.note(ms, now_s) for now_s, ms in enumerate((3.0, 99.9, 0.0))] == [None, None, None]


def test_a_report_is_of_the_longest_hold_since_the_one_before_and_follows_no_sooner_than_it_may() -> None:
    held = HeldTimes(held_ms_min=100, report_interval_s=10)
    assert held.note(150, 1) == 150
    assert held.note(300, 2) is None
    assert held.note(200, 10.9) is None
    assert held.note(1, 11) == 300
    assert held.note(1, 30) is None
    assert held.note(101, 31) == 101


def test_a_loop_that_was_held_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "SAMPLE_S", 0.001)

    async def scenario() -> None:
        watching = asyncio.create_task(watch_loop())
        await asyncio.sleep(0.01)
        time.sleep(0.15)  # noqa: ASYNC251  This is what is watched for.
        await asyncio.sleep(0.01)
        watching.cancel()

    with capture_logs() as logs:
        asyncio.run(scenario())
    assert [entry["event"] for entry in logs] == ["event loop held"]
    assert logs[0]["held_ms"] >= 100
