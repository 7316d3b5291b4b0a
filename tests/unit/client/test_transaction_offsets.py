"""Offsets of a group that a producer commits with its transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.client.model.errors import (
    ClientClosed,
    CommitFailed,
    SubscriptionConflict,
    TransactionAborted,
    TransactionConflict,
)
from kraft.client.model.values import GroupMetadata, OffsetAndMetadata
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.unit.client.clients import consumer_of, fill, read
from tests.unit.client.transactions import cluster_with, ends, producer_of

GROUP = GroupMetadata(group_id="g", member_id="m", generation=3, instance_id="i")
ORDERS = tp("orders")


async def test_offsets_count_once_their_transaction_is_committed() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(5, "note", 2)}, GROUP)
            assert transactions.offsets == {}
        assert transactions.offsets == {("g", ORDERS): 5}
        (request,) = transactions.offset_requests
        assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("payments", 1, 0)
        assert (request.member_id, request.generation_id, request.group_instance_id) == ("m", 3, "i")
        (topic,) = request.topics
        (each,) = topic.partitions
        assert (topic.name, each.partition_index, each.committed_offset) == ("orders", 0, 5)
        assert (each.committed_leader_epoch, each.committed_metadata) == (2, "note")
        assert ends(transactions) == [(0, True)], "the coordinator is asked, although no record was sent"


async def test_offsets_of_an_aborted_transaction_do_not_count() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP)
        await producer.abort_transaction()
        assert transactions.offsets == {}
        assert ends(transactions) == [(0, False)]


async def test_no_offsets_are_no_request() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({}, GROUP)
        assert (transactions.offset_requests, ends(transactions)) == ([], [])


async def test_offsets_belong_to_an_open_transaction() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        await producer.init_transactions()
        with pytest.raises(TransactionConflict, match="send_offsets_to_transaction: no transaction is open"):
            await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP)
        with pytest.raises(ValueError, match="-5 is not an offset"):
            await producer.send_offsets_to_transaction({ORDERS: -5}, GROUP)


async def test_offsets_of_a_wrong_type_leave_the_transaction_open() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            with pytest.raises(TypeError, match=r"group must be what Consumer.group_metadata\(\) returns, not str"):
                await producer.send_offsets_to_transaction({ORDERS: 5}, "g")  # type: ignore[arg-type]  # The mistake.
            with pytest.raises(TypeError, match="expected a dict of TopicPartition and offset, not list"):
                await producer.send_offsets_to_transaction([ORDERS], GROUP)  # type: ignore[arg-type]  # The mistake.
            await producer.send_offsets_to_transaction({ORDERS: 6}, GROUP)
        assert transactions.offsets == {("g", ORDERS): 6}


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
async def test_what_passes_is_retried(code: ErrorCode) -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        transactions.offset_errors = [code, code]
        async with producer.transaction():
            await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP)
        assert transactions.offsets == {("g", ORDERS): 5}


async def test_a_lost_answer_is_asked_for_again() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        for broker in cluster.brokers.values():
            broker.lost_answers["txn_offset_commit"] = 1
        async with producer.transaction():
            await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP)
        assert transactions.offsets == {("g", ORDERS): 5}
        assert len(transactions.offset_requests) == 2


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ],
)
async def test_refused_offsets_fail_their_transaction(code: ErrorCode) -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        transactions.offset_errors = [code]
        with pytest.raises(TransactionAborted, match=f"call abort_transaction, then begin again. Reason: {code.name}"):
            await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP)
        with pytest.raises(TransactionAborted) as caught:
            await producer.commit_transaction()
        assert isinstance(caught.value.__cause__, Refusal)
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send_offsets_to_transaction({ORDERS: 6}, GROUP)
        assert transactions.offsets == {("g", ORDERS): 6}


async def test_offsets_that_are_not_stored_in_time_fail_their_transaction() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        transactions.offset_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
        with pytest.raises(TransactionAborted, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await producer.send_offsets_to_transaction({ORDERS: 5}, GROUP, timeout_ms=5_000)
        await producer.abort_transaction()


async def test_interrupted_offsets_fail_their_transaction() -> None:
    """Whether they are part of it is unknown."""
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        transactions.offset_errors = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
        task = asyncio.create_task(producer.send_offsets_to_transaction({ORDERS: 5}, GROUP))
        await asyncio.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TransactionAborted, match="send_offsets_to_transaction was interrupted"):
            await producer.commit_transaction()
        await producer.abort_transaction()


# --- group metadata ---------------------------------------------------------------------------------------------


async def test_a_member_shows_what_it_is(protocol: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.place("orders", [1, 2, 3])
    cluster.groups = FakeGroups(cluster)
    fill(cluster, "orders", 10)
    settings = {**protocol, "group_id": "g", "auto_offset_reset": "earliest", "group_instance_id": "i"}
    try:
        async with consumer_of(cluster, **settings, enable_auto_commit=False) as consumer:
            consumer.subscribe("orders")
            with pytest.raises(CommitFailed, match="the consumer has not joined the group yet; poll first"):
                consumer.group_metadata()
            await read(consumer, 10)
            metadata = consumer.group_metadata()
            assert (metadata.group_id, metadata.instance_id, metadata.generation > 0) == ("g", "i", True)
            assert metadata.member_id
            assert consumer.consumed()[ORDERS].offset == 10
        for call in (consumer.group_metadata, consumer.consumed):
            with pytest.raises(ClientClosed, match=f"{call.__name__}: the consumer is closed"):
                call()
    finally:
        cluster.groups.close()


async def test_a_consumer_that_is_assigned_partitions_names_its_group() -> None:
    async with consumer_of(FakeCluster(), group_id="g") as consumer:
        consumer.assign([ORDERS])
        assert consumer.group_metadata() == GroupMetadata(group_id="g")
    async with consumer_of(FakeCluster()) as consumer:
        with pytest.raises(SubscriptionConflict, match=r"group_metadata: .* give group\.id"):
            consumer.group_metadata()
