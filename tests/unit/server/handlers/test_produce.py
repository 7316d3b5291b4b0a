from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchRequest
from kraft.model.ids import TopicId, TopicPartition
from kraft.model.produce import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.server.handlers.awaited_replicas import AwaitedReplicasHandler
from tests.support.log.transactional_log import transactional
from tests.support.server.fetch_handlers import fetch_handler
from tests.support.server.produce_handlers import produce_handler
from tests.support.server.replicas import Broker, batch, fetched, follow, lead, lead_begun, settle, values_in, values_of


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    return Broker(tmp_path)


def request(
    *records: bytes, acks: int = -1, timeout_ms: int = 30_000, topic: str = "orders", partition: int = 0
) -> ProduceRequest:
    partitions = [ProducePartition(topic=topic, partition=partition, records=each) for each in records]
    return ProduceRequest(request_id=7, acks=acks, timeout_ms=timeout_ms, partitions=partitions)


async def only(answer: Awaitable[ProduceResponse | None]) -> ProducePartitionResult:
    response = await answer
    assert response is not None
    assert response.request_id == 7
    (result,) = response.partitions
    return result


async def test_acks_all_is_answered_when_every_replica_in_sync_has_the_records_on_disk(broker: Broker) -> None:
    partition = broker.open()
    lead(partition, epoch=3)
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a", "b"))))
    await settle()
    fetched(partition, 2)
    await settle()
    assert not answer.done(), "the leader's own disk does not have them yet"
    broker.sync()
    result = await only(answer)
    assert (result.error_code, result.base_offset, result.log_append_time_ms) == (ErrorCode.NONE, 0, -1)
    assert (result.leader_id, result.leader_epoch, result.log_start_offset) == (1, 3, 0)


async def test_an_answer_that_waited_is_there_in_the_turn_after_the_commit(broker: Broker) -> None:
    lead(broker.open(), replicas=(1,))
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a"))))
    await settle()
    broker.sync()
    await asyncio.sleep(0)
    assert answer.done()


async def test_the_records_are_in_the_log_before_the_answer_is_awaited(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    first, second = handler.handle(request(batch("a"), acks=1)), handler.handle(request(batch("b"), acks=1))
    assert values_in(partition) == ["a", "b"]
    assert [(await only(answer)).base_offset for answer in (second, first)] == [1, 0]


async def test_acks_1_does_not_wait_for_the_followers(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead_begun(partition, isr=(1,))
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"), acks=1)))
    assert (result.error_code, result.base_offset, partition.high_watermark) == (ErrorCode.NONE, 0, 0)


async def test_acks_0_has_no_answer_and_a_failure_of_it_ends_the_stream(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    assert await handler.handle(request(batch("a"), acks=0)) is None
    assert values_in(partition) == ["a"]
    follow(partition, epoch=1)
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
        await handler.handle(request(batch("b"), acks=0))


async def test_what_waits_for_no_replica_is_begun_and_answered_in_one(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    assert isinstance(handler.begin(request(batch("a"), acks=1)), ProduceResponse)
    assert handler.begin(request(batch("b"), acks=0)) is None
    awaited = handler.handle(request(batch("c"), acks=1))
    assert isinstance(awaited, asyncio.Future)
    assert awaited.done(), "no task is needed to await it"
    waiting = handler.begin(request(batch("d"), acks=-1))
    assert isinstance(waiting, Awaitable)
    assert values_in(partition) == ["a", "b", "c", "d"]
    fetched(partition, 4)
    broker.sync()
    assert (await only(waiting)).base_offset == 3
    follow(partition, epoch=1)
    with pytest.raises(Refusal, match="NOT_LEADER_OR_FOLLOWER"):
        handler.begin(request(batch("e"), acks=0))


@pytest.mark.parametrize("acks", [2, -2])
async def test_other_acks_are_refused_and_append_nothing(broker: Broker, acks: int) -> None:
    partition = broker.open()
    lead(partition)
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"), acks=acks)))
    assert result.error_code is ErrorCode.INVALID_REQUIRED_ACKS
    assert values_in(partition) == []


async def test_a_wait_that_takes_too_long_ends_in_a_timeout_and_the_records_may_be_committed_later(
    broker: Broker,
) -> None:
    partition = broker.open()
    lead(partition)
    began = asyncio.get_running_loop().time()
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"), timeout_ms=1_500)))
    assert result.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert asyncio.get_running_loop().time() - began == pytest.approx(1.5)
    broker.sync()
    fetched(partition, 1)
    assert partition.high_watermark == 1


async def test_each_partition_has_its_own_outcome_also_beside_a_timeout(broker: Broker) -> None:
    alone, replicated = broker.open(), broker.open(TopicPartition("orders", 1))
    lead(alone, replicas=(1,))
    lead(replicated)
    partitions = [ProducePartition(topic="orders", partition=number, records=batch("a")) for number in (0, 1, 2)]
    answer = asyncio.ensure_future(
        produce_handler(broker.partitions).handle(
            ProduceRequest(request_id=7, acks=-1, timeout_ms=100, partitions=partitions)
        )
    )
    await settle()
    broker.sync()
    response = await answer
    assert response is not None
    assert [result.error_code for result in response.partitions] == [
        ErrorCode.NONE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


async def test_below_the_minimum_isr_nothing_is_appended(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead(partition, isr=(1,))
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"))))
    assert result.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "min.insync.replicas=2" in result.error_message
    assert values_in(partition) == []


async def test_an_isr_that_shrinks_below_the_minimum_fails_waiting_records(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead(partition)
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a"))))
    await settle()
    lead(partition, partition_epoch=1, isr=(1,))
    assert (await only(answer)).error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_the_errors_of_acks_all_say_what_is_waited_for(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=2)
    lead(partition)
    awaited = AwaitedReplicasHandler(
        broker.partitions, lambda _, required_offset: f"waits for offset {required_offset}"
    )
    handler = produce_handler(broker.partitions, awaited=awaited)
    timed_out = await only(handler.handle(request(batch("a", "b"))))
    assert timed_out.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert timed_out.error_message == "appended, and waits for offset 2"
    lead(partition, partition_epoch=1, isr=(1,))
    refused = await only(handler.handle(request(batch("c"))))
    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused.error_message.endswith("retry when more replicas are in sync; the partition waits for offset 3")


async def test_the_last_replica_in_sync_takes_records_and_gives_them_where_the_minimum_allows(broker: Broker) -> None:
    partition = broker.open(min_insync_replicas=1)
    lead(partition, isr=(1,))
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a"))))
    await settle()
    broker.sync()
    assert (await only(answer)).error_code is ErrorCode.NONE
    asked = FetchPartition(topic="orders", partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(request_id=8, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, partitions=[asked])
    (read,) = (await fetch_handler(broker.partitions).handle(fetch)).partitions
    assert values_of(read.records) == ["a"]


async def test_a_replica_that_does_not_lead_names_the_leader_it_knows(broker: Broker) -> None:
    follow(broker.open(), leader=2, epoch=9)
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"))))
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader_id, result.leader_epoch, result.base_offset) == (2, 9, -1)


async def test_a_leader_that_is_demoted_while_records_wait_names_its_successor(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a"))))
    await settle()
    follow(partition, leader=2, epoch=1)
    result = await only(answer)
    assert (result.error_code, result.leader_id, result.leader_epoch) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2, 1)


async def test_a_partition_that_is_not_held_here_has_no_hint(broker: Broker) -> None:
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"))))
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (result.leader_id, result.leader_epoch) == (-1, -1)


async def test_a_retry_of_what_is_in_the_log_waits_for_it_to_be_committed_and_has_its_first_offset(
    broker: Broker,
) -> None:
    partition = broker.open()
    lead(partition)
    handler = produce_handler(broker.partitions)
    original = batch("a", "b", producer_id=5, sequence=0)
    first = asyncio.ensure_future(handler.handle(request(original)))
    behind = asyncio.ensure_future(handler.handle(request(batch("c", producer_id=5, sequence=2))))
    await settle()
    retry = asyncio.ensure_future(handler.handle(request(original)))
    await settle()
    assert not retry.done(), "that its original was appended does not mean that it is safe"
    broker.sync()
    fetched(partition, 2)
    await settle()
    for answer in (first, retry):
        result = await only(answer)
        assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert not behind.done()
    fetched(partition, 3)
    await behind
    assert values_in(partition) == ["a", "b", "c"]


async def test_a_retry_after_the_leader_changed_waits_under_the_new_leader(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    handler = produce_handler(broker.partitions)
    original = batch("a", producer_id=5, sequence=0)
    first = asyncio.ensure_future(handler.handle(request(original)))
    await settle()
    broker.sync()
    follow(partition, epoch=1)
    lead(partition, epoch=2)
    assert (await only(first)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    retry = asyncio.ensure_future(handler.handle(request(original)))
    await settle()
    assert not retry.done()
    fetched(partition, 1)
    assert (await only(retry)).base_offset == 0
    assert values_in(partition) == ["a"]


async def test_a_gap_in_a_producers_numbers_is_refused(broker: Broker) -> None:
    partition = broker.open()
    lead_begun(partition)
    handler = produce_handler(broker.partitions)
    await only(handler.handle(request(batch("a", producer_id=5, sequence=0), acks=1)))
    result = await only(handler.handle(request(batch("c", producer_id=5, sequence=2), acks=1)))
    assert result.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_what_is_under_way_behind_a_refused_batch_is_not_taken_before_it(broker: Broker) -> None:
    """The broker becomes leader between two requests of a producer that it does not know."""
    partition = broker.open()
    handler = produce_handler(broker.partitions)
    first, second = (request(batch(each, producer_id=5, sequence=at), acks=1) for at, each in enumerate("ab"))
    assert (await only(handler.handle(first))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    lead_begun(partition)
    assert (await only(handler.handle(second))).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for again in (first, second):
        assert (await only(handler.handle(again))).error_code is ErrorCode.NONE
    assert values_in(partition) == ["a", "b"]


async def test_damaged_bytes_and_batches_that_are_too_large_are_refused(broker: Broker) -> None:
    lead(broker.open(max_message_bytes=100))
    handler = produce_handler(broker.partitions)
    damaged = bytearray(batch("a"))
    damaged[-1] ^= 1
    refused = [await only(handler.handle(request(each))) for each in (bytes(damaged), batch("x" * 200), b"")]
    assert [result.error_code for result in refused] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
    ]


async def test_nothing_waits_any_longer_for_a_client_that_went(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    answer = asyncio.ensure_future(produce_handler(broker.partitions).handle(request(batch("a"))))
    await settle()
    assert len(partition._produces) == 1
    answer.cancel()
    await settle()
    assert len(partition._produces) == 0


async def test_a_write_error_of_the_disk_reaches_the_node_and_the_producer(broker: Broker) -> None:
    lead_begun(broker.open())
    broker.disk.fails_writes = True
    result = await only(produce_handler(broker.partitions).handle(request(batch("a"))))
    assert result.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failures


async def test_only_brokers_write_to_an_internal_topic(broker: Broker) -> None:
    partition = broker.open(TopicPartition("__consumer_offsets", 0), TopicId(UUID(int=50)))
    lead(partition, replicas=(1,))
    asked = request(batch("a"), topic="__consumer_offsets")
    assert (
        await only(produce_handler(broker.partitions).handle(asked))
    ).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert values_in(partition) == []


async def test_a_transactional_batch_that_nobody_has_verified_is_refused(broker: Broker) -> None:
    partition = broker.open()
    lead(partition)
    result = await only(produce_handler(broker.partitions).handle(request(transactional(7, 0, "a"))))
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_TXN_STATE,
        "the records of producer 7 are not part of an open transaction: send them with their transactional id",
    )
    assert values_in(partition) == []
