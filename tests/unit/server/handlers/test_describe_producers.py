from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kraft.log.recovery.producer_state import ProducerState as StateInLog
from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.server.handlers import describe_producers
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from kraft.wire.schema.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import Broker, append_to, batch, follow, lead, made
from tests.support.turn_counter import TurnCounter
from tests.support.virtual_time import run_virtually

IMAGE = with_topic(cluster(1), [1])
ASKED = [("orders", (0, 9, 0)), ("nowhere", (1,)), ("orders", (0,)), ("orders", ())]


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def described(broker: Broker, topic: str = "orders", partition: int = 0) -> PartitionResponse:
    request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(partition,)),))
    (answered,) = (await DescribeProducersHandler(broker.partitions, lambda: IMAGE).handle(request)).topics
    (result,) = answered.partitions
    assert (answered.name, result.partition_index) == (topic, partition)
    return result


def test_the_producers_of_a_partition_are_described(broker: Broker) -> None:
    async def scenario() -> PartitionResponse:
        partition = broker.open()
        lead(partition)
        for sequence, value in enumerate("ab"):
            append_to(partition, batch(value, producer_id=7, producer_epoch=2, sequence=sequence), 1)
        append_to(partition, batch("nobody's"), 1)
        return await described(broker)

    result = run_virtually(scenario())
    (producer,) = result.active_producers
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert producer == ProducerState(
        producer_id=7, producer_epoch=2, last_sequence=1, last_timestamp=producer.last_timestamp, coordinator_epoch=-1
    )


def test_a_follower_describes_its_producers_as_well(broker: Broker) -> None:
    async def scenario() -> PartitionResponse:
        partition = broker.open()
        follow(partition)
        records = bytearray(batch("a", producer_id=7, producer_epoch=2, sequence=5))
        made(partition, partition.append_as_follower(bytes(records)))
        return await described(broker)

    result = run_virtually(scenario())
    assert [(each.producer_id, each.last_sequence) for each in result.active_producers] == [(7, 5)]


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("orders", 9)])
def test_an_unknown_partition_is_reported_as_unknown(broker: Broker, topic: str, partition: int) -> None:
    refused = run_virtually(described(broker, topic, partition))
    assert (refused.error_code, refused.active_producers) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    assert refused.error_message


def test_an_invalid_topic_name_is_answered_with_its_error(broker: Broker) -> None:
    assert run_virtually(described(broker, "a/b", 0)).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_many_producers_are_described_in_turns_as_they_were_at_one_moment(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come by id, whatever the order in which they began to write."""
    monkeypatch.setattr(describe_producers, "PRODUCERS_AT_ONCE", 10)
    monkeypatch.setattr(describe_producers, "SORTED_AT_ONCE", 7)
    state = StateInLog(epoch=1, batches=(), last_offset=Offset(0), timestamp_ms=5, transaction_start=Offset(3))

    async def scenario() -> tuple[PartitionResponse, int]:
        partition = broker.open()
        lead(partition)
        states = {(number * 37) % 101: state for number in range(1, 101)}
        monkeypatch.setattr(type(partition.log), "producers", states)
        async with TurnCounter() as others:
            describing = asyncio.ensure_future(described(broker))
            await asyncio.sleep(0)
            states.clear()
            result = await describing
        return result, others.turns

    result, turns = run_virtually(scenario())
    assert [each.producer_id for each in result.active_producers] == list(range(1, 101))
    assert {each.current_txn_start_offset for each in result.active_producers} == {3}
    assert turns >= 20


def test_a_partition_that_is_named_twice_is_answered_twice(broker: Broker) -> None:
    async def scenario() -> list[tuple[str, int]]:
        lead(broker.open())
        names = [TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in ASKED]
        handler = DescribeProducersHandler(broker.partitions, lambda: IMAGE)
        response = await handler.handle(DescribeProducersRequest(topics=tuple(names)))
        return [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]

    assert run_virtually(scenario()) == [(topic, number) for topic, numbers in ASKED for number in numbers]
