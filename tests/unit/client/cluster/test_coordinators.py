from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kraft.client.cluster.any_broker import AnyBroker, NoBrokerReachable
from kraft.client.cluster.coordinators import Coordinators
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.group_calls import HEARTBEAT
from kraft.rpc.peers import Unreachable
from kraft.wire.declaration import replace
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.fake_groups import FakeGroups
from tests.support.virtual_time import LoopClock

BEAT = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
"""What the group, which has no members, answers."""


@asynccontextmanager
async def clients_view() -> AsyncIterator[tuple[FakeCluster, FakeGroups, Coordinators]]:
    cluster = FakeCluster()
    cluster.groups = FakeGroups(cluster)
    backoff, clock = Backoff(first_ms=100, max_ms=1_000, chance=lambda: 0.5), LoopClock()
    any_broker = AnyBroker([each.address for each in cluster.brokers.values()], backoff, clock)
    try:
        yield cluster, cluster.groups, Coordinators(cluster, any_broker, backoff, clock)
    finally:
        cluster.groups.close()


async def beat(coordinators: Coordinators, timeout_ms: int = 30_000) -> HeartbeatResponse | ErrorCode:
    try:
        return await coordinators.call("g", HEARTBEAT, BEAT, LoopClock().monotonic_ms() + timeout_ms)
    except Refusal as refusal:
        return refusal.error_code


async def test_a_coordinator_is_looked_up_once() -> None:
    async with clients_view() as (cluster, _, coordinators):
        assert [await beat(coordinators) for _ in range(2)] == [UNKNOWN, UNKNOWN]
        assert [each.split()[1] for each in cluster.calls] == ["find_coordinator", "heartbeat", "heartbeat"]


@pytest.mark.parametrize(
    ("code", "is_looked_up"),
    [
        (ErrorCode.NOT_COORDINATOR, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
    ],
)
async def test_a_request_is_sent_again_where_the_coordinator_is(code: ErrorCode, is_looked_up: bool) -> None:
    async with clients_view() as (cluster, _, coordinators):
        cluster.brokers[1].refusals["heartbeat"] = Refusal(code, "for now")
        assert await beat(coordinators) is UNKNOWN
        assert sum("find_coordinator" in each for each in cluster.calls) == 1 + is_looked_up


async def test_a_coordinator_that_moves_is_followed() -> None:
    async with clients_view() as (cluster, groups, coordinators):
        await beat(coordinators)
        groups.move_to(2)
        assert await beat(coordinators) is UNKNOWN
        cluster.brokers[2].kill()
        groups.move_to(3)
        assert await beat(coordinators) is UNKNOWN
        assert cluster.calls[-1] == "broker-3:9094 heartbeat"


async def test_a_coordinator_that_hangs_is_waited_for_no_longer_once_another_has_replaced_it() -> None:
    async with clients_view() as (cluster, groups, coordinators):
        await beat(coordinators)
        cluster.brokers[1].hangs = True
        groups.move_to(2)
        before_ms = LoopClock().monotonic_ms()
        assert await beat(coordinators) is UNKNOWN
        assert LoopClock().monotonic_ms() - before_ms < 1_500
        assert cluster.calls[-1] == "broker-2:9094 heartbeat"


async def test_others_are_asked_for_a_coordinator_that_takes_long_at_growing_intervals() -> None:
    async with clients_view() as (cluster, _, coordinators):
        await beat(coordinators)
        cluster.calls.clear()
        cluster.brokers[1].hangs = True
        began_ms = LoopClock().monotonic_ms()
        with pytest.raises(Unreachable, match="no answer within"):
            await coordinators.attempt("g", HEARTBEAT, BEAT, 25_000)
        assert LoopClock().monotonic_ms() - began_ms == 25_000
        # After 1, 3, 7, 12, 17 and 22 s, and nobody asks the broker that hangs.
        assert cluster.calls == ["broker-1:9094 heartbeat", *["broker-2:9094 find_coordinator"] * 6]


async def test_an_answer_is_taken_at_once_though_nobody_says_where_the_coordinator_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with clients_view() as (cluster, groups, coordinators):
        await beat(coordinators)

        async def answered_late(*_: object) -> HeartbeatResponse:
            for broker in cluster.brokers.values():
                broker.hangs = True
            await asyncio.sleep(1.5)
            return HeartbeatResponse(error_code=0)

        monkeypatch.setattr(groups, "answer", answered_late)
        began_ms = LoopClock().monotonic_ms()
        assert await beat(coordinators) == HeartbeatResponse(error_code=0)
        assert LoopClock().monotonic_ms() - began_ms == 1_500


async def test_the_last_error_is_raised_at_the_deadline() -> None:
    async with clients_view() as (cluster, groups, coordinators):
        groups.coordinator_id = 2
        await coordinators.find("g", 1_000)
        groups.coordinator_id = 3
        cluster.brokers[3].kill()
        before_ms = LoopClock().monotonic_ms()
        assert await beat(coordinators, 5_000) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert LoopClock().monotonic_ms() - before_ms <= 5_000
        for broker in cluster.brokers.values():
            broker.kill()
        with pytest.raises(Unreachable) as caught:
            await beat(coordinators, 5_000)
        assert isinstance(caught.value, NoBrokerReachable)


async def test_a_cluster_that_does_not_answer_is_reported_with_the_whole_time_that_it_had() -> None:
    async with clients_view() as (cluster, _, coordinators):
        for broker in cluster.brokers.values():
            broker.kill()
        with pytest.raises(NoBrokerReachable) as silent:
            await beat(coordinators, 30_000)
    assert 28_000 <= silent.value.timeout_ms <= 30_000
    assert str(silent.value).startswith("no broker answered within ")


async def test_many_coordinators_are_looked_up_at_once() -> None:
    async with clients_view() as (cluster, _, coordinators):
        await coordinators.find_all([f"g{number % 1_500}" for number in range(3_000)], 1_000)
        assert len(cluster.calls) == 2
        assert (await coordinators.find("g7", 1_000)).node_id == 1
        assert len(cluster.calls) == 2


async def test_a_group_that_is_refused_does_not_keep_others_from_being_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async with clients_view() as (_, groups, coordinators):
        find = groups.find_coordinator

        def refuse_empty(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
            invalid = {"error_code": ErrorCode.INVALID_GROUP_ID, "error_message": "empty"}
            found = find(request).coordinators
            return FindCoordinatorResponse(
                coordinators=tuple(each if each.key else replace(each, **invalid) for each in found)
            )

        monkeypatch.setattr(groups, "find_coordinator", refuse_empty)
        await coordinators.find_all(["", "g"], 1_000)
        assert (await coordinators.find("g", 1_000)).node_id == 1
        with pytest.raises(Refusal, match="empty"):
            await coordinators.find("", 1_000)
