"""The timers of a shard end in time, and with its leadership."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from kraft.coordinator import shard_machine
from kraft.coordinator.shard import ShardDecision
from kraft.server.loop.timers import Timers
from tests.support.counter_shard import AddLater, CounterShard, Read, Waiters
from tests.support.server.replicas import follow, lead, values_in
from tests.unit.server.coordinator.coordinating import Coordinating


async def test_timers_end_in_time(tmp_path: Path) -> None:
    here = Coordinating(tmp_path)
    await here.leading()
    await here.do(AddLater("later", 7, 2_000))
    await here.do(AddLater("never", 100, 2_000))
    await here.do(AddLater("never", 100, -1))
    await asyncio.sleep(1)
    await here.do(AddLater("later", 8, 2_000))
    await asyncio.sleep(1.5)
    assert await here.do(Read()) == 0
    await asyncio.sleep(1)
    assert await here.do(Read()) == 8
    await here.close()


async def test_timers_end_with_the_leadership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(CounterShard, "timer_ended", lambda *arguments: ended.append(arguments))
    here = Coordinating(tmp_path)
    partition = await here.leading()
    await here.do(AddLater("later", 7, 2_000))
    lead(partition, epoch=2, replicas=(1,))
    await asyncio.sleep(10)
    assert ended == []
    assert values_in(partition) == []
    await here.close()


async def test_the_timers_of_a_load_that_are_not_set_yet_end_with_the_leadership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[Any] = []
    has_set_first = asyncio.Event()
    set_timer = Timers.set

    def noted(timers: Timers, key: Hashable, number: int, delay_s: float) -> None:
        if key == "timer 0":
            has_set_first.set()
        set_timer(timers, key, number, delay_s)

    loaded = ShardDecision[Waiters, bytes](volatile=Waiters(), timers={f"timer {number}": 1_000 for number in range(3)})
    monkeypatch.setattr(Timers, "set", noted)
    monkeypatch.setattr(CounterShard, "loaded", lambda *_: loaded)
    monkeypatch.setattr(shard_machine, "TIMERS_AT_ONCE", 1)
    monkeypatch.setattr(CounterShard, "timer_ended", lambda *arguments: ended.append(arguments))
    here = Coordinating(tmp_path)
    partition = here.open()
    lead(partition, replicas=(1,))
    await has_set_first.wait()
    follow(partition, epoch=2)
    await asyncio.sleep(10)
    assert ended == []
    await here.close()
