from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.describe_producers import ActiveProducer, DescribeProducersRequest, PartitionProducers
from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName
from kraft.server.handlers.describe_producers import DescribeProducersHandler
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.replicas import Broker, append_to, batch, follow, lead, made
from tests.support.virtual_time import run_virtually

IMAGE = with_topic(cluster(1), [1])


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


async def described(broker: Broker, topic: str = "orders", partition: int = 0) -> PartitionProducers:
    request = DescribeProducersRequest(partitions=(PartitionName(topic=topic, partition=partition),))
    (result,) = (await DescribeProducersHandler(broker.partitions, lambda: IMAGE).handle(request)).partitions
    return result


def test_the_producers_of_a_partition_are_described(broker: Broker) -> None:
    async def scenario() -> PartitionProducers:
        partition = broker.open()
        lead(partition)
        for sequence, value in enumerate("ab"):
            append_to(partition, batch(value, producer_id=7, producer_epoch=2, sequence=sequence), 1)
        append_to(partition, batch("nobody's"), 1)
        return await described(broker)

    result = run_virtually(scenario())
    (producer,) = result.producers
    assert (result.topic, result.partition, result.error_code) == ("orders", 0, ErrorCode.NONE)
    assert producer == ActiveProducer(
        producer_id=7, producer_epoch=2, last_sequence=1, last_timestamp_ms=producer.last_timestamp_ms
    )


def test_a_follower_describes_its_producers_as_well(broker: Broker) -> None:
    async def scenario() -> PartitionProducers:
        partition = broker.open()
        follow(partition)
        records = bytearray(batch("a", producer_id=7, producer_epoch=2, sequence=5))
        made(partition, partition.append_as_follower(bytes(records)))
        return await described(broker)

    result = run_virtually(scenario())
    assert [(each.producer_id, each.last_sequence) for each in result.producers] == [(7, 5)]


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("orders", 9)])
def test_an_unknown_partition_is_reported_as_unknown(broker: Broker, topic: str, partition: int) -> None:
    assert run_virtually(described(broker, topic, partition)).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_invalid_topic_name_is_answered_with_its_error(broker: Broker) -> None:
    assert run_virtually(described(broker, "a/b", 0)).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
