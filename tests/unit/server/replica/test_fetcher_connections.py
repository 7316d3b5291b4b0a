"""Leaders that hang, go away or refuse, and come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc.frame_exchange import NotConnected
from kraft.rpc.peers import NotAdmitted, NotServed, Unreachable
from kraft.server.replica.fetcher import ANSWER_GRACE_S, CONNECT_AFTER_S, RECONNECT_AFTER_S
from tests.support.server.replicas import Broker, append_to, batch, until, values_in
from tests.unit.server.replica.fetching_replicas import (
    CONFIG,
    Leader,
    Losses,
    Stream,
    fetcher_of,
    fetching,
    followed,
    led,
    result,
)

LOST, FOUND = "2 lost", "2 found"


async def unreachable(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
    raise Unreachable("localhost:9094", "connection refused")


@pytest.mark.parametrize("hang", ["it takes no requests", "it does not answer"])
async def test_a_leader_that_hangs_is_disconnected_and_reached_when_it_is_back(
    leader: Leader, follower: Broker, hang: str
) -> None:
    led(leader, "a")
    copy, honest = followed(follower), leader.answer

    async def silent(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
        await asyncio.sleep(3_600)
        raise AssertionError("nobody waits that long")

    leader.takes_no_requests, leader.answer = hang == "it takes no requests", silent
    async with fetching(leader, follower):
        await asyncio.sleep(1)
        leader.takes_no_requests, leader.answer = False, honest
        await until(lambda: values_in(copy) == ["a"], within_s=ANSWER_GRACE_S + 2)
        assert leader.streams == 2


async def test_a_leader_that_is_down_or_not_registered_is_retried(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy, honest = followed(follower), leader.answer

    leader.is_known, leader.answer = False, unreachable
    async with fetching(leader, follower):
        await asyncio.sleep(1)
        assert leader.streams == 0
        leader.is_known = True
        await asyncio.sleep(1)
        assert 5 <= leader.streams <= 12
        leader.answer = honest
        await until(lambda: values_in(copy) == ["a"])


async def test_a_leader_that_goes_away_is_reported_once_each_time(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy, honest, losses = followed(follower), leader.answer, Losses()

    async with fetching(leader, follower, losses=losses):
        await until(lambda: values_in(copy) == ["a"])
        assert losses.reported == []
        for times in (1, 2):
            leader.answer = unreachable
            await until(lambda: losses.is_lost(BrokerId(2)))
            await asyncio.sleep(1)
            assert losses.reported == [LOST, FOUND] * (times - 1) + [LOST]
            leader.answer = honest
            await asyncio.sleep(1)
            assert losses.reported == [LOST, FOUND] * times


async def test_a_leader_that_answers_again_is_reported_at_once_though_it_has_nothing_new(
    leader: Leader, follower: Broker
) -> None:
    led(leader, "a")
    copy, honest, losses = followed(follower), leader.answer, Losses()

    async with fetching(leader, follower, losses=losses):
        await until(lambda: copy.high_watermark == 1)
        for times in (1, 2):
            leader.answer = unreachable
            await asyncio.sleep(1)
            assert losses.reported == [LOST, FOUND] * (times - 1) + [LOST]
            leader.answer = honest
            await asyncio.sleep(2 * RECONNECT_AFTER_S)
            assert losses.reported == [LOST, FOUND] * times
            await asyncio.sleep(2)
    assert losses.reported == [LOST, FOUND] * 2


async def test_a_leader_that_counted_as_lost_before_it_was_fetched_from_is_found_with_its_first_answer(
    leader: Leader, follower: Broker
) -> None:
    led(leader)
    followed(follower)
    losses = Losses()
    losses.lost(BrokerId(2))
    async with fetching(leader, follower, losses=losses):
        await asyncio.sleep(2 * RECONNECT_AFTER_S)
        assert losses.reported == [LOST, FOUND]


async def test_a_leader_that_others_lose_while_it_is_fetched_from_is_found_again(
    leader: Leader, follower: Broker
) -> None:
    led(leader)
    followed(follower)
    losses = Losses()
    async with fetching(leader, follower, losses=losses):
        await asyncio.sleep(2 * RECONNECT_AFTER_S)
        losses.lost(BrokerId(2))
        await asyncio.sleep(CONFIG.fetch_wait_max_ms / 1_000 + 2 * RECONNECT_AFTER_S)
        assert losses.reported == [LOST, FOUND]


async def test_a_restarted_broker_that_leads_nothing_is_not_reported_as_found(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy, losses = followed(follower), Losses()

    async def started_again(request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        refused = [result(wanted, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER) for wanted in request.partitions]
        return ReplicaFetchResponse(partitions=refused)

    async with fetching(leader, follower, losses=losses):
        await until(lambda: copy.high_watermark == 1)
        leader.answer = unreachable
        await asyncio.sleep(1)
        leader.answer = started_again
        await asyncio.sleep(1)
        assert losses.reported == [LOST]


@pytest.mark.parametrize("error", [NotAdmitted, NotServed])
async def test_a_leader_that_answers_something_is_not_reported_as_lost(
    leader: Leader, follower: Broker, error: type[Unreachable]
) -> None:
    led(leader, "a")
    copy, honest, losses = followed(follower), leader.answer, Losses()

    async def refusing(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
        raise error("localhost:9094", "not you")

    leader.answer = refusing
    async with fetching(leader, follower, losses=losses):
        await asyncio.sleep(1)
        leader.answer = honest
        await until(lambda: values_in(copy) == ["a"])
    assert losses.reported == []


async def test_a_leader_that_takes_no_connections_is_fetched_from_over_grpc_until_it_does(
    leader: Leader, follower: Broker
) -> None:
    source, losses = led(leader, "a"), Losses()
    copy = followed(follower)
    leader.accepts_no_connections = True
    async with fetching(leader, follower, losses=losses):
        await until(lambda: copy.high_watermark == 1)
        await asyncio.sleep(2 * CONNECT_AFTER_S)
        assert (leader.connections, leader.streams) == (0, 1)
        leader.accepts_no_connections = False
        await until(lambda: leader.connections == 1, within_s=4 * CONNECT_AFTER_S)
        append_to(source, batch("b"), 1)
        leader.broker.sync()
        await until(lambda: copy.high_watermark == 2, within_s=0.1)
        await asyncio.sleep(10)
        assert (leader.connections, leader.streams) == (1, 2)
    assert values_in(copy) == ["a", "b"]
    assert losses.reported == []
    assert leader.closed_streams == leader.streams


async def test_a_leader_without_a_listener_for_connections_is_never_tried(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy = followed(follower)
    leader.accepts_no_connections, leader.may_connect = True, False
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 1)
        leader.accepts_no_connections = False
        await asyncio.sleep(10 * CONNECT_AFTER_S)
    assert (leader.connections, leader.streams) == (0, 1)


async def test_a_leader_whose_connections_carry_no_response_is_fetched_from_over_grpc(
    leader: Leader, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind something that lets nothing but introductions pass."""

    class Cut(Stream):
        async def receive(self) -> ReplicaFetchResponse:
            await asyncio.sleep(0.01)
            raise Unreachable("localhost:9092", "the other end closed the connection")

    async def connect() -> Stream:
        leader.connections += 1
        return Cut(leader)

    led(leader, "a")
    copy = followed(follower)
    monkeypatch.setattr(leader, "connect", connect)
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 1, within_s=1)
        await asyncio.sleep(60)
        assert 3 <= leader.connections <= 6
    assert values_in(copy) == ["a"]


async def test_a_bug_in_an_attempt_to_connect_is_not_swallowed(
    leader: Leader, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = 0

    async def connect() -> Stream:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise NotConnected("connection refused")
        raise RuntimeError("a bug")

    led(leader, "a")
    followed(follower)
    monkeypatch.setattr(leader, "connect", connect)
    with pytest.raises(RuntimeError, match="a bug"):
        async with asyncio.timeout(60):
            await fetcher_of(leader, follower).run()
    assert attempts == 2


async def test_a_connection_opened_while_the_leader_is_unregistered_is_closed(
    leader: Leader, follower: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    led(leader, "a")
    copy, original, looked_up = followed(follower), leader.connect, list[bool]()
    leader.accepts_no_connections = True

    async def connect() -> Stream:
        stream = await original()
        leader.is_known = False
        return stream

    def link() -> Any:
        looked_up.append(leader.is_known)
        assert len(looked_up) < 1_000, "the event loop is never left"
        return leader if leader.is_known else None

    monkeypatch.setattr(leader, "connect", connect)
    monkeypatch.setattr(leader, "link", link)
    async with fetching(leader, follower):
        await until(lambda: copy.high_watermark == 1)
        leader.accepts_no_connections = False
        await until(lambda: not leader.is_known, within_s=4 * CONNECT_AFTER_S)
        await asyncio.sleep(1)
        assert len(looked_up) < 20
    assert leader.closed_streams == leader.streams


async def test_a_leader_is_silent_from_the_first_failure_until_it_answers(leader: Leader, follower: Broker) -> None:
    led(leader, "a")
    copy, honest = followed(follower), leader.answer

    async def nothing(_: ReplicaFetchRequest) -> ReplicaFetchResponse:
        await asyncio.sleep(3_600)
        raise AssertionError

    async with fetching(leader, follower) as fetcher:
        await until(lambda: values_in(copy) == ["a"])
        assert fetcher.silence.seconds == 0
        for answer in (unreachable, nothing):
            leader.answer = answer
            await asyncio.sleep(60)
            before_s = fetcher.silence.seconds
            assert before_s > 30
            await asyncio.sleep(10)
            assert fetcher.silence.seconds == pytest.approx(before_s + 10)
            leader.answer = honest
            await asyncio.sleep(60)
            assert fetcher.silence.seconds == 0
