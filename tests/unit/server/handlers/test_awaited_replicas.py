from __future__ import annotations

from pathlib import Path

import pytest

from kraft.model.awaited_replicas import AwaitingPartition, DescribeAwaitedReplicasRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from kraft.server.replica.partition import Partition
from tests.support.server.replicas import Broker, append_to, batch, fetched, follow, lead


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def in_words(partition: Partition, required_offset: Offset) -> str:
    assert partition.leader is not None
    awaited = [each.broker_id for each in partition.leader.awaited(required_offset)]
    return f"waits for {awaited} to have offset {required_offset}"


async def awaited_in(broker: Broker, *numbers: int) -> list[str]:
    handler = AwaitedReplicasHandler(broker.partitions, in_words)
    partitions = [AwaitingPartition(topic="orders", partition=number) for number in numbers]
    response = await handler.handle(DescribeAwaitedReplicasRequest(partitions=partitions))
    assert [(each.topic, each.partition) for each in response.partitions] == [("orders", each) for each in numbers]
    return [each.awaited for each in response.partitions]


async def test_only_the_replicas_that_lack_the_oldest_uncommitted_record_are_named(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1, 2, 3))
    for value in ("a", "b", "c"):
        append_to(partition, batch(value), -1)
    broker.sync()
    fetched(partition, 2, broker_id=2)
    fetched(partition, 1, broker_id=3, broker_epoch=3)
    assert await awaited_in(broker, 0) == ["waits for [3] to have offset 2"]


async def test_nothing_is_awaited_where_all_is_committed_or_another_broker_leads(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), -1)
    broker.sync()
    assert await awaited_in(broker, 0, 7) == ["", ""]


async def test_a_follower_awaits_nothing(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    append_to(partition, batch("a"), -1)
    follow(partition, epoch=1)
    handler = AwaitedReplicasHandler(broker.partitions)
    asked = DescribeAwaitedReplicasRequest(partitions=[AwaitingPartition(topic="orders", partition=0)])
    assert [each.awaited for each in (await handler.handle(asked)).partitions] == [""]


async def test_a_refusal_for_another_reason_than_a_small_isr_keeps_its_message(broker: Broker) -> None:
    lead(broker.open())
    handler = AwaitedReplicasHandler(broker.partitions, in_words)
    refusal = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "the transaction is not verified; retry")
    assert handler.message("orders", 0, refusal) == "the transaction is not verified; retry"


async def test_below_the_minimum_isr_the_replicas_that_it_lacks_are_added_to_that_refusal_alone(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=3)
    lead(partition, replicas=(1, 2, 3), isr=(1, 2))
    handler = AwaitedReplicasHandler(broker.partitions, in_words)
    told = {
        code: handler.message("orders", 0, Refusal(code, "refused"))
        for code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE)
    }
    assert told[ErrorCode.NOT_ENOUGH_REPLICAS] == "refused; the partition waits for [3] to have offset 1"
    assert told[ErrorCode.MESSAGE_TOO_LARGE] == "refused"
