from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.model.delete_records import HIGH_WATERMARK
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, Offset, TopicId, TopicPartition
from kraft.server.handlers.delete_records import DeleteRecordsHandler
from kraft.server.replica.partition import Partition
from kraft.wire.schema.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.server.replicas import Broker, append_to, batch, follow, lead, made, settle, values_in
from tests.support.turn_counter import TurnCounter
from tests.support.virtual_time import run_virtually


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def asking(before_offset: int, topic: str = "orders", partition: int = 0) -> DeleteRecordsTopic:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=before_offset)
    return DeleteRecordsTopic(name=topic, partitions=(wanted,))


async def delete(broker: Broker, *wanted: DeleteRecordsTopic) -> list[DeleteRecordsPartitionResult]:
    request = DeleteRecordsRequest(timeout_ms=1_000, topics=wanted)
    answered = (await DeleteRecordsHandler(broker.partitions, lambda: None).handle(request)).topics
    assert [(topic.name, len(topic.partitions)) for topic in answered] == [
        (topic.name, len(topic.partitions)) for topic in wanted
    ]
    return [each for topic in answered for each in topic.partitions]


def led(broker: Broker, *values: str, replicas: tuple[int, ...] = (1,), **configs: Any) -> Partition:
    """A partition with one batch for each value, all committed."""
    partition = broker.open(**configs)
    lead(partition, replicas=replicas)
    for value in values:
        append_to(partition, batch(value), 1)
    broker.sync()
    for replica in replicas[1:]:
        followed(partition, replica, log_start=0)
    assert partition.high_watermark == len(values)
    return partition


def followed(partition: Partition, broker_id: int, *, log_start: int) -> None:
    """Fetch as a follower that has all records and whose log begins at `log_start`."""
    end = partition.log.log_end_offset
    partition.follower_fetched(BrokerId(broker_id), BrokerEpoch(broker_id), end, Offset(log_start))


def test_records_below_the_offset_are_gone(broker: Broker) -> None:
    partition = led(broker, "a", "b", "c")
    (result,) = run_virtually(delete(broker, asking(2)))
    assert result.partition_index == 0
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
    assert values_in(partition) == ["c"]


def test_minus_one_deletes_everything_that_is_committed(broker: Broker) -> None:
    partition = led(broker, "a", "b")
    append_to(partition, batch("not committed"), 1)
    (result,) = run_virtually(delete(broker, asking(HIGH_WATERMARK)))
    assert result.low_watermark == 2
    assert values_in(partition) == ["not committed"]


@pytest.mark.parametrize("before_offset", [3, -2])
def test_an_offset_outside_what_is_committed_is_refused(broker: Broker, before_offset: int) -> None:
    partition = led(broker, "a", "b")
    append_to(partition, batch("not committed"), 1)
    (result,) = run_virtually(delete(broker, asking(before_offset)))
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert partition.log.log_start_offset == 0


def test_an_offset_that_is_passed_already_is_answered_with_where_the_log_begins(broker: Broker) -> None:
    led(broker, "a", "b", "c")
    run_virtually(delete(broker, asking(2)))
    (result,) = run_virtually(delete(broker, asking(1)))
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)


def test_an_offset_that_retention_has_passed_is_answered_with_where_the_log_begins(broker: Broker) -> None:
    partition = led(broker, "a", "b", "c", retention_ms=1)
    assert made(partition, partition.apply_retention()), "all records are old"
    (result,) = run_virtually(delete(broker, asking(1)))
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 3)


def test_records_of_a_compacted_topic_are_not_deleted(broker: Broker) -> None:
    led(broker, cleanup_policy=("compact",))
    (result,) = run_virtually(delete(broker, asking(0)))
    assert result.error_code == ErrorCode.POLICY_VIOLATION


def test_records_of_a_topic_that_is_compacted_and_deleted_are(broker: Broker) -> None:
    led(broker, cleanup_policy=("compact", "delete"))
    (result,) = run_virtually(delete(broker, asking(0)))
    assert result.error_code == ErrorCode.NONE


def test_each_partition_has_a_result_of_its_own_in_the_requests_order(broker: Broker) -> None:
    led(broker, "a")
    follow(broker.open(TopicPartition("payments", 0), TopicId(UUID(int=7))))
    both = tuple(DeleteRecordsPartition(partition_index=number, offset=offset) for number, offset in ((0, 1), (7, 0)))
    orders = DeleteRecordsTopic(name="orders", partitions=both)
    results = run_virtually(delete(broker, asking(0, "payments"), orders))
    assert [(each.partition_index, each.error_code) for each in results] == [
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, ErrorCode.NONE),
        (7, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]


async def test_the_answer_waits_for_every_in_sync_replica(broker: Broker) -> None:
    partition = led(broker, "a", "b", replicas=(1, 2, 3))
    asked = asyncio.create_task(delete(broker, asking(1)))
    await settle()
    assert partition.log.log_start_offset == 1
    followed(partition, 2, log_start=1)
    await settle()
    assert not asked.done()
    followed(partition, 3, log_start=2)
    (result,) = await asked
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 1)


async def test_a_replica_that_leaves_the_isr_is_not_waited_for(broker: Broker) -> None:
    partition = led(broker, "a", "b", replicas=(1, 2))
    asked = asyncio.create_task(delete(broker, asking(1)))
    await settle()
    lead(partition, replicas=(1, 2), isr=(1,), partition_epoch=1)
    (result,) = await asked
    assert result.low_watermark == 1


def test_a_replica_that_does_not_follow_in_time_is_answered_with_a_timeout(broker: Broker) -> None:
    partition = led(broker, "a", "b", replicas=(1, 2))
    (result,) = run_virtually(delete(broker, asking(1)))
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert partition.log.log_start_offset == 1


async def test_a_leader_that_is_demoted_meanwhile_says_so(broker: Broker) -> None:
    partition = led(broker, "a", "b", replicas=(1, 2))
    asked = asyncio.create_task(delete(broker, asking(1)))
    await settle()
    follow(partition, epoch=1)
    (result,) = await asked
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_deletion_that_fails_is_refused_as_such_and_at_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.thread.holds_steps = True
    partition = broker.open()
    lead(partition, replicas=(1,))
    append_to(partition, batch("a"), 1)
    broker.sync_all()
    began = asyncio.get_running_loop().time()
    asked = asyncio.create_task(delete(broker, asking(1)))
    await settle()
    broker.disk.is_full = True
    broker.sync_all()
    (result,) = await asked
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "no replica will delete them later"
    assert asyncio.get_running_loop().time() == began
    assert partition.log.log_start_offset == 0


async def test_segment_removal_is_requested_after_a_deletion(broker: Broker) -> None:
    led(broker, "a")
    calls: list[int] = []
    handler = DeleteRecordsHandler(broker.partitions, lambda: calls.append(len(calls)))
    for offset, times in ((7, 0), (1, 1)):
        await handler.handle(DeleteRecordsRequest(timeout_ms=10, topics=(asking(offset),)))
        assert len(calls) == times


def test_a_request_for_nothing_is_answered_at_once(broker: Broker) -> None:
    assert run_virtually(delete(broker)) == []


def test_a_log_that_was_emptied_takes_new_records_at_its_old_end(broker: Broker) -> None:
    partition = led(broker, "a", "b")
    run_virtually(delete(broker, asking(HIGH_WATERMARK)))
    assert values_in(partition) == []
    assert append_to(partition, batch("c"), 1).base_offset == 2


def test_records_of_an_internal_topic_are_deleted_by_brokers_only(broker: Broker) -> None:
    broker.open(TopicPartition("__consumer_offsets", 0), TopicId(UUID(int=50)))
    (result,) = run_virtually(delete(broker, asking(0, topic="__consumer_offsets")))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_many_partitions_are_looked_for_in_turns(broker: Broker) -> None:
    async with TurnCounter() as others:
        results = await delete(broker, *[asking(0, topic="unknown", partition=each) for each in range(1_000)])
    assert others.turns >= 5
    assert {each.error_code for each in results} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
