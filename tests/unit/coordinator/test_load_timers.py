"""The timers of a load are set some at a time; what is decided meanwhile counts more than they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kraft.coordinator.shard import DecisionContext, Ticket, TimerKey
from kraft.coordinator.shard_effects import AppendBatch, Load, RemoveTimer, SetMoreTimers, SetTimer
from kraft.coordinator.shard_machine import TIMERS_AT_ONCE, ShardFacts, ShardMachine
from kraft.metadata.image import EMPTY_IMAGE
from kraft.model.errors import ErrorCode, Refusal
from tests.support.counter_shard import Add, AddLater, Command, CounterShard, encode

TIMERS = {f"timer {number:05}": 1_000 + number for number in range(2 * TIMERS_AT_ONCE + 10)}
CONTEXT = DecisionContext(now_ms=1_000, image=EMPTY_IMAGE, random_id="id")


class Loaded:
    """A shard whose load sets many timers."""

    def __init__(self) -> None:
        facts = ShardFacts(
            context=lambda: CONTEXT,
            batch_bytes_max=lambda: 1_000,
            append_refusal=lambda: None,
            producer_refusal=lambda *_: None,
        )
        self.shard: ShardMachine[int, Any, Command, bytes] = ShardMachine(CounterShard(), encode, facts, 0)
        self.timers: dict[TimerKey, SetTimer] = {}
        self.has_more = False
        self.appends = 0
        self.run(self.shard.start())

    def run(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            match effect:
                case SetTimer():
                    self.timers[effect.key] = effect
                case RemoveTimer():
                    self.timers.pop(effect.key, None)
                case SetMoreTimers():
                    self.has_more = True
                case Load():
                    decision = CounterShard().loaded(effect.replicated, CONTEXT)
                    volatile = replace(decision.volatile, later=dict.fromkeys(TIMERS, 1))
                    self.run(self.shard.loaded(replace(decision, volatile=volatile, timers=TIMERS)))
                case AppendBatch():
                    self.appends += 1
                case _:
                    pass

    def decide(self, command: Command) -> None:
        self.run(self.shard.command(Ticket(1), command))

    def set_more(self) -> None:
        assert self.has_more
        self.has_more = False
        self.run(self.shard.set_more_timers())

    @property
    def of_shard(self) -> dict[TimerKey, int]:
        return {key: timer.delay_ms for key, timer in self.timers.items() if isinstance(key, str)}


def test_the_timers_of_a_load_are_set_some_at_a_time() -> None:
    loaded = Loaded()
    assert len(loaded.of_shard) == TIMERS_AT_ONCE
    loaded.set_more()
    assert len(loaded.of_shard) == 2 * TIMERS_AT_ONCE
    loaded.set_more()
    assert loaded.of_shard == TIMERS
    assert not loaded.has_more


@pytest.mark.parametrize("delay_ms", [-1, 7], ids=["removed", "set"])
def test_a_timer_that_was_set_or_removed_since_the_load_stays_as_it_is(delay_ms: int) -> None:
    loaded = Loaded()
    name = f"timer {TIMERS_AT_ONCE:05}"
    loaded.decide(AddLater(name, 1, delay_ms))
    while loaded.has_more:
        loaded.set_more()
    assert loaded.of_shard == {**TIMERS, name: 7} if delay_ms >= 0 else TIMERS.keys() - {name} == loaded.of_shard.keys()


def test_after_a_failed_append_the_timers_of_the_load_before_it_are_not_set() -> None:
    loaded = Loaded()
    loaded.decide(Add(1))
    loaded.run(loaded.shard.flush())
    assert loaded.appends == 1
    loaded.run(loaded.shard.append_failed(Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few replicas")))
    loaded.set_more()
    assert loaded.of_shard == {}
