from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest, ProducerIdBlock
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.rpc.call import Call
from kraft.rpc.cluster_calls import ALLOCATE_PRODUCER_IDS
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.server.cluster.controller_client import (
    ATTEMPT_TIMEOUT_S,
    NEXT_AFTER_S,
    PAUSE_AFTER_ALL_FAILED_S,
    ControllerClient,
    ControllerPeer,
    NoController,
)
from kraft.server.config.values import Voter

VOTERS = [Voter(node_id=BrokerId(number), host="localhost", port=9000 + number) for number in (1, 2, 3)]


@dataclass(frozen=True)
class Answer:
    error_code: int
    by: int = 0


@dataclass
class FakePeer:
    address: str
    cluster: Cluster

    async def call(self, _call: object, _request: object, timeout_s: float) -> Answer:
        return await self.cluster.ask(self, timeout_s)


class Cluster:
    """Answers for each controller as the test says; notes who was asked."""

    def __init__(self, **behaviour: Callable[[], Answer]) -> None:
        self.behaviour = {int(name[1:]): answer for name, answer in behaviour.items()}
        self.asked: list[int] = []
        self.hangs: set[int] = set()
        self.busy: dict[int, float] = {}

    def peer(self, address: str) -> FakePeer:
        return FakePeer(address, self)

    async def ask(self, peer: FakePeer, timeout_s: float) -> Answer:
        number = int(peer.address[-1])
        self.asked.append(number)
        if number in self.hangs:
            await asyncio.sleep(timeout_s)
            raise Unreachable(peer.address, "no answer within the time allowed")
        await asyncio.sleep(self.busy.get(number, 0.01))
        return self.behaviour[number]()


def active() -> Answer:
    return Answer(ErrorCode.NONE)


def passive() -> Answer:
    return Answer(ErrorCode.NOT_CONTROLLER)


def passive_in_kafkas_words() -> Answer:
    """In Kafka's messages a code is a number."""
    return Answer(int(ErrorCode.NOT_CONTROLLER))


def down() -> Answer:
    raise Unreachable("localhost", "connection refused")


def refusing() -> Answer:
    raise Refusal(ErrorCode.NOT_CONTROLLER, "this is not the active controller")


def of(own_id: int, cluster: Cluster) -> ControllerClient:
    return ControllerClient(VOTERS, BrokerId(own_id), cast(PeerConnections, cluster), ())


async def ask(client: ControllerClient, deadline_s: float) -> Any:
    """Whatever is asked, and by whomever."""
    call, request = cast("Call[Any, Any]", None), None
    return await client.call(call, request, deadline_s)


def test_a_combined_node_calls_itself_first() -> None:
    assert [peer.address for peer in _peers(own_id=3)] == ["localhost:9003", "localhost:9001", "localhost:9002"]


def test_brokers_without_a_controller_start_with_different_controllers() -> None:
    first = [_peers(own_id)[0].address for own_id in (4, 5, 6, 7)]
    assert first == ["localhost:9002", "localhost:9003", "localhost:9001", "localhost:9002"]
    assert [peer.address for peer in _peers(own_id=5)] == ["localhost:9003", "localhost:9001", "localhost:9002"]


def _peers(own_id: int) -> list[ControllerPeer]:
    return of(own_id, Cluster()).peers()


async def test_the_controller_in_this_process_is_called_without_a_connection_while_it_is_active() -> None:
    asked: list[str] = []
    is_active = True

    async def allocate(_: AllocateProducerIdsRequest) -> ProducerIdBlock:
        asked.append("own")
        return ProducerIdBlock(error_code=ErrorCode.NONE if is_active else ErrorCode.NOT_CONTROLLER)

    own = [ALLOCATE_PRODUCER_IDS.served_by(allocate)]
    cluster = Cluster(c1=active, c3=passive)
    client = ControllerClient(VOTERS, BrokerId(2), cast(PeerConnections, cluster), own)
    request = AllocateProducerIdsRequest(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(1))
    await client.call(ALLOCATE_PRODUCER_IDS, request, 5)
    assert (client.active_id, asked, cluster.asked) == (2, ["own"], [])
    is_active = False
    await client.call(ALLOCATE_PRODUCER_IDS, request, 5)
    assert (client.active_id, asked, cluster.asked) == (1, ["own", "own"], [1])


@pytest.mark.parametrize("elsewhere", [passive, passive_in_kafkas_words, down, refusing])
async def test_controllers_are_called_in_turn_until_one_is_active_and_it_is_remembered(
    elsewhere: Callable[[], Answer],
) -> None:
    cluster = Cluster(c1=elsewhere, c2=elsewhere, c3=active)
    client = of(1, cluster)
    assert await ask(client, 5) == Answer(ErrorCode.NONE)
    assert await ask(client, 5) == Answer(ErrorCode.NONE)
    assert cluster.asked == [1, 2, 3, 3]
    assert client.active_id == 3


async def test_two_concurrent_calls_do_not_skip_the_active_controller() -> None:
    cluster = Cluster(c1=passive, c2=active, c3=passive)
    client = of(1, cluster)
    await asyncio.gather(ask(client, 1), ask(client, 1))
    assert cluster.asked == [1, 1, 2, 2]


async def test_without_an_active_controller_all_are_called_until_the_deadline_and_each_reason_is_reported() -> None:
    cluster = Cluster(c1=passive, c2=down, c3=passive)
    client = of(1, cluster)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(NoController, match=r"1@localhost:9001 is not the active controller; .*connection refused"):
        await ask(client, 5)
    assert loop.time() - began == pytest.approx(5, abs=0.2)
    assert len(cluster.asked) < 150, "it pauses between the rounds"


async def test_a_controller_that_is_about_to_become_active_is_asked_again_soon() -> None:
    cluster = Cluster(c1=passive)
    client = ControllerClient(VOTERS[:1], BrokerId(1), cast(PeerConnections, cluster), ())
    loop = asyncio.get_running_loop()
    began = loop.time()
    loop.call_later(0.015, cluster.behaviour.update, {1: active})
    assert await ask(client, 5) == Answer(ErrorCode.NONE)
    assert cluster.asked == [1, 1]
    assert loop.time() - began < PAUSE_AFTER_ALL_FAILED_S / 2


async def test_an_election_is_waited_for() -> None:
    cluster = Cluster(c1=passive, c2=passive, c3=passive)
    client = of(1, cluster)
    loop = asyncio.get_running_loop()
    began = loop.time()
    loop.call_later(2, cluster.behaviour.update, {2: active})
    assert await ask(client, 5) == Answer(ErrorCode.NONE)
    # Each round asks all of them, so the new one is found in the first round that it is there for.
    assert loop.time() - began < 2 + 2 * PAUSE_AFTER_ALL_FAILED_S


async def test_a_controller_that_hangs_does_not_block_the_whole_attempt() -> None:
    cluster = Cluster(c1=active, c2=passive, c3=active)
    client = of(1, cluster)
    cluster.hangs = {1}
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await ask(client, 10) == Answer(ErrorCode.NONE)
    assert cluster.asked == [1, 2, 3]
    assert loop.time() - began < 2 * NEXT_AFTER_S < ATTEMPT_TIMEOUT_S
    assert client.active_id == 3


async def test_a_slow_controller_is_waited_for_and_not_called_twice() -> None:
    cluster = Cluster(c1=active, c2=passive, c3=down)
    client = of(1, cluster)
    cluster.busy = {1: ATTEMPT_TIMEOUT_S - 0.1}
    assert await ask(client, 10) == Answer(ErrorCode.NONE)
    assert cluster.asked.count(1) == 1
    assert client.active_id == 1


async def test_a_controller_that_has_not_answered_by_the_deadline_is_named() -> None:
    cluster = Cluster(c1=active, c2=passive, c3=passive)
    cluster.hangs = {1}
    with pytest.raises(NoController, match=r"1@localhost:9001 has not answered|no answer within the time allowed"):
        await ask(of(1, cluster), 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_any_other_error_code_is_the_answer() -> None:
    cluster = Cluster(c1=lambda: Answer(ErrorCode.STALE_BROKER_EPOCH))
    assert (await ask(of(1, cluster), 5)).error_code is ErrorCode.STALE_BROKER_EPOCH


async def test_any_other_refusal_of_an_operators_request_is_passed_on() -> None:
    def refuse() -> Answer:
        raise Refusal(ErrorCode.INVALID_REQUEST, "no")

    cluster = Cluster(c1=passive, c2=refuse)
    cluster.behaviour[1] = refusing
    with pytest.raises(Refusal, match="INVALID_REQUEST"):
        await ask(of(1, cluster), 5)


async def test_without_time_no_controller_is_called() -> None:
    cluster = Cluster(c1=active)
    with pytest.raises(NoController, match="no time left for a call"):
        await ask(of(1, cluster), 0)
    assert cluster.asked == []


async def test_every_controller_is_asked_at_once_and_the_last_answer_of_each_is_remembered() -> None:
    cluster = Cluster(c1=passive, c2=down, c3=refusing)
    cluster.hangs = {3}
    client = of(1, cluster)
    call, request = cast("Call[Any, Any]", None), None
    began = asyncio.get_running_loop().time()
    assert await client.ask_each(call, request, 0.5) == {1: passive(), 2: None, 3: None}
    assert asyncio.get_running_loop().time() == pytest.approx(began + 0.5)
    assert [client.heard_ms_ago(voter) for voter in (1, 2, 3)] == [490, -1, -1]


async def test_a_refusal_of_a_call_is_a_sign_of_life() -> None:
    client = of(1, Cluster(c1=down, c2=down, c3=refusing))
    with pytest.raises(NoController):
        await ask(client, 1)
    assert client.heard_ms_ago(1) == -1
    assert 0 <= client.heard_ms_ago(3) < 1_000
