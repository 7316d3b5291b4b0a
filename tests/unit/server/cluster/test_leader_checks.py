from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kraft.model.ids import BrokerId
from kraft.server.cluster.leader_checks import PERIOD_S, SILENCE_S_MAX, LeaderChecks, LeaderLost
from kraft.server.cluster.lost_leaders import HOLD_MS_MAX
from tests.support.cluster_images import cluster, with_topic
from tests.support.virtual_time import LoopClock

IMAGE = with_topic(cluster(1, 2, 3), [2, 1], [3, 1], [1, 2])
"""Brokers 2, 3 and 1 lead a partition each."""

ROUND_TRIP_S = 0.005


class Cluster:
    """The other brokers, as broker 1 reaches them."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.dead: set[int] = set()
        self.paused: set[int] = set()
        self.losses: list[int] = []
        self.waited_for: list[tuple[str, ...]] = []
        self.holds_s = 0.0
        self.checks = LeaderChecks(lambda: IMAGE, BrokerId(1), self._ask, self)

    async def _ask(self, broker_id: BrokerId) -> None:
        self.asked.append(broker_id)
        await asyncio.sleep(ROUND_TRIP_S)
        if broker_id in self.dead:
            raise LeaderLost("it is dead")
        if broker_id in self.paused:
            await asyncio.Event().wait()

    def lost(self, broker_id: BrokerId) -> None:
        self.losses.append(broker_id)

    def is_lost(self, broker_id: BrokerId) -> bool:
        return broker_id in self.losses

    def found(self, broker_id: BrokerId) -> None:
        self.losses.remove(broker_id)

    async def replaced(self, topics: Iterable[str]) -> None:
        self.waited_for.append(tuple(topics))
        await asyncio.sleep(self.holds_s)

    async def took_ms(self, *topics: str) -> int:
        return await took_ms(lambda: self.checks.known_to_lead(topics))


async def took_ms(call: Callable[[], Awaitable[object]]) -> int:
    began_ms = LoopClock().monotonic_ms()
    await call()
    return LoopClock().monotonic_ms() - began_ms


async def test_the_other_leaders_are_asked_once_each() -> None:
    brokers = Cluster()
    assert await brokers.took_ms("orders", "payments") == 5
    assert sorted(brokers.asked) == [2, 3]
    assert not brokers.losses
    assert brokers.waited_for == [("orders", "payments")]


async def test_nobody_is_asked_about_unknown_topics() -> None:
    brokers = Cluster()
    assert await brokers.took_ms("payments") == 0
    assert not brokers.asked


async def test_a_leader_whose_connection_breaks_is_noted_before_its_replacement_is_waited_for() -> None:
    brokers = Cluster()
    brokers.dead = {2}
    await brokers.checks.known_to_lead(["orders"])
    assert brokers.losses == [2]
    await asyncio.sleep(SILENCE_S_MAX)


async def test_requests_that_come_together_share_a_question_that_begins_after_them() -> None:
    brokers = Cluster()

    async def later(after_s: float) -> int:
        await asyncio.sleep(after_s)
        return await brokers.took_ms("orders")

    took = await asyncio.gather(*(later(each) for each in (0.0, 0.001, 0.002, 0.003)))
    assert sorted(brokers.asked) == [2, 2, 3, 3]
    # The first question began before the others came, so it says nothing of what happened since.
    assert took == [5, *(round(1_000 * (2 * PERIOD_S + ROUND_TRIP_S)) - each for each in (1, 2, 3))]


async def test_a_paused_leader_delays_answers_once_and_again_after_it_has_answered() -> None:
    brokers = Cluster()
    brokers.paused = {2}
    longest_ms = round(1_000 * SILENCE_S_MAX)
    first, second = await asyncio.gather(brokers.took_ms("orders"), brokers.took_ms("orders"))
    assert first == second == longest_ms
    assert await brokers.took_ms("orders") <= 5
    assert not brokers.losses
    await asyncio.sleep(2 * SILENCE_S_MAX)
    brokers.paused = set()
    await brokers.took_ms("orders")
    await asyncio.sleep(SILENCE_S_MAX)
    brokers.paused = {2}
    assert await brokers.took_ms("orders") == longest_ms


async def test_a_silent_leader_is_waited_for_again_once_its_death_was_noticed() -> None:
    """The process that takes its place answers, or dies as well, and callers must know which."""
    brokers = Cluster()
    brokers.paused = {2, 3}
    await brokers.took_ms("orders")
    await asyncio.sleep(2 * SILENCE_S_MAX)
    brokers.paused, brokers.dead = {3}, {2}
    assert await brokers.took_ms("orders") == 0
    await asyncio.sleep(SILENCE_S_MAX)
    assert brokers.losses.pop() == 2
    await asyncio.sleep(SILENCE_S_MAX)
    await brokers.checks.known_to_lead(["orders"])
    assert brokers.losses == [2]
    await asyncio.sleep(SILENCE_S_MAX)


async def test_a_wait_that_is_cancelled_does_not_cancel_those_of_others() -> None:
    brokers = Cluster()
    waits = [asyncio.create_task(brokers.took_ms("orders")) for _ in range(2)]
    await asyncio.sleep(0.001)
    waits[0].cancel()
    assert await waits[1] == 5


async def test_a_lost_leader_that_answers_a_later_question_is_found() -> None:
    brokers = Cluster()
    waits = asyncio.create_task(brokers.took_ms("orders"))
    await asyncio.sleep(0.001)
    brokers.lost(BrokerId(2))
    await waits
    assert brokers.losses == [2], "the question began before the loss"
    await brokers.took_ms("orders")
    assert not brokers.losses


async def test_questions_and_the_wait_for_another_leader_together_have_one_bound() -> None:
    brokers = Cluster()
    brokers.paused, brokers.holds_s = {2}, HOLD_MS_MAX / 1_000
    assert await brokers.took_ms("orders") == HOLD_MS_MAX
