from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kraft.client.aio import stalled_produces
from kraft.client.aio.producer import Producer
from kraft.client.aio.stalled_produces import StalledProduces
from kraft.client.model.errors import DeliveryTimeout
from kraft.client.sans_io.send_queue import Awaited
from kraft.model.awaited_replicas import (
    AwaitedReplicas,
    DescribeAwaitedReplicasRequest,
    DescribeAwaitedReplicasResponse,
)
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network

AWAITED = "waits for broker 3, which has lacked records for 4 s: its disk is full"
QUESTION = "broker-1:9094 describe_awaited_replicas"


@pytest.fixture
def cluster() -> FakeCluster:
    """A topic whose leader, broker 1, does not answer its producers."""
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    cluster.brokers[1].withholds_responses = True
    cluster.brokers[1].awaited = AWAITED
    return cluster


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


def reason_in(producer: Producer) -> str:
    delay = producer.longest_delay()
    return "" if delay is None else delay.reason


async def stop(producer: Producer, future: asyncio.Future[Any]) -> None:
    await producer.close(timeout_ms=0)
    await asyncio.wait([future])
    future.exception()


async def test_a_delay_has_what_the_leader_says_that_it_waits_for(cluster: FakeCluster) -> None:
    async with producer_of(cluster) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(4.5)
        assert reason_in(producer) == f"no response from broker-1:9094 yet: it {AWAITED}"
        assert 3 <= cluster.calls.count(QUESTION) <= 4, "at most once a second"
        cluster.brokers[1].awaited = ""
        await asyncio.sleep(1)
        assert reason_in(producer) == "no response from broker-1:9094 yet"
        await stop(producer, future)


async def test_what_a_leader_said_is_not_told_once_it_is_silent(cluster: FakeCluster) -> None:
    async with producer_of(cluster) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(2.5)
        assert AWAITED in reason_in(producer)
        cluster.brokers[1].hangs = True
        await asyncio.sleep(4)
        assert AWAITED in reason_in(producer), "it was true a short time ago"
        await asyncio.sleep(2)
        assert reason_in(producer) == "no response from broker-1:9094 yet"
        await stop(producer, future)


async def test_the_error_of_a_record_has_it_also_after_the_request_timed_out(cluster: FakeCluster) -> None:
    async with producer_of(cluster, request_timeout_ms=5_000, delivery_timeout_ms=5_500) as producer:
        with pytest.raises(DeliveryTimeout) as caught:
            await producer.send_and_wait("orders", b"a")
    silence = "broker-1:9094 did not answer within request.timeout.ms=5000"
    assert caught.value.reason == f"{silence}; it last said that it {AWAITED}"


async def test_records_behind_one_that_waits_have_its_reason(cluster: FakeCluster) -> None:
    async with producer_of(cluster, request_timeout_ms=5_000, delivery_timeout_ms=5_500) as producer:
        first = await producer.send("orders", b"a")
        # The leader does not know the producer yet, so that one batch at a time is sent.
        await asyncio.sleep(1)
        behind = await producer.send("orders", b"b")
        await asyncio.wait([first, behind])
        assert AWAITED in str(first.exception())
        error = behind.exception()
        assert isinstance(error, DeliveryTimeout)
        assert error.reason.startswith("no response from broker-1:9094 yet; to the records before: ")
        assert error.reason.endswith(AWAITED)


async def test_a_leader_of_an_earlier_version_is_asked_in_vain(cluster: FakeCluster) -> None:
    cluster.brokers[1].is_of_earlier_version = True
    async with producer_of(cluster) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(4.5)
        assert reason_in(producer) == "no response from broker-1:9094 yet"
        await stop(producer, future)


@pytest.mark.parametrize("acks", [0, 1])
async def test_without_acks_all_nobody_is_asked(cluster: FakeCluster, acks: int) -> None:
    async with producer_of(cluster, acks=acks, enable_idempotence=False) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(10)
        await stop(producer, future)
    assert QUESTION not in cluster.calls


async def test_a_leader_that_answers_is_not_asked(cluster: FakeCluster) -> None:
    cluster.brokers[1].withholds_responses = False
    async with producer_of(cluster) as producer:
        for _ in range(10):
            await producer.send_and_wait("orders", b"a")
            await asyncio.sleep(1)
    assert QUESTION not in cluster.calls


async def test_what_a_leader_waited_for_is_not_told_of_later_records(cluster: FakeCluster) -> None:
    broker = cluster.brokers[1]
    async with producer_of(cluster, request_timeout_ms=2_000) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(1.5)
        assert AWAITED in reason_in(producer)
        broker.withholds_responses = False
        await future
        broker.hangs = True
        later = await producer.send("orders", b"b")
        await asyncio.sleep(0.5)
        assert reason_in(producer) == "no response from broker-1:9094 yet"
        await stop(producer, later)


class Leader:
    """A connection to a leader, and the questions that it got."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.asked: list[list[int]] = []
        self._hangs = hangs

    def peer(self, address: str, client_id: str = "") -> Leader:
        return self

    async def call(
        self, call: object, request: DescribeAwaitedReplicasRequest, timeout_s: float
    ) -> DescribeAwaitedReplicasResponse:
        self.asked.append([each.partition for each in request.partitions])
        if self._hangs:
            # Longer than the deadline of a question: what is late is not asked again either.
            await asyncio.sleep(timeout_s * 10)
        answers = [
            AwaitedReplicas(topic=each.topic, partition=each.partition, awaited="") for each in request.partitions
        ]
        return DescribeAwaitedReplicasResponse(partitions=answers)


async def asked_for_seconds(leader: Leader, count: int, seconds: int) -> dict[TopicPartition, Awaited]:
    """Return what is known of so many partitions after that time."""
    explained: dict[TopicPartition, Awaited] = {}
    stalled = StalledProduces(cast(Any, leader), explained.__setitem__)
    partitions = [TopicPartition("orders", number) for number in range(count)]
    for second in range(seconds):
        stalled.ask("broker-1:9094", partitions, second * stalled_produces.PERIOD_MS)
        await asyncio.sleep(1)
    await stalled.close()
    return explained


async def test_a_leader_that_does_not_answer_has_one_question_at_a_time() -> None:
    leader = Leader(hangs=True)
    await asked_for_seconds(leader, 1, 9)
    assert leader.asked == [[0]]


async def test_of_many_partitions_each_has_its_turn() -> None:
    leader, at_once = Leader(), stalled_produces.PARTITIONS_PER_QUESTION_MAX
    known = await asked_for_seconds(leader, 2 * at_once + 50, 4)
    assert [len(each) for each in leader.asked] == [at_once, at_once, 50, at_once]
    assert len(known) == 2 * at_once + 50
    assert leader.asked[3] == leader.asked[0]
