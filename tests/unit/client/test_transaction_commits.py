"""Transactions that their producers prepare, and an admin client commits together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.errors import TransactionAborted, TransactionConflict, TransactionOutcomeUnknown
from kraft.coordinator.group_partition import partition_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.transactions import PreparedTransaction
from tests.support.client.fake_cluster import FakeCluster
from tests.support.client.scripted_transactions import ScriptedTransaction
from tests.unit.client.clients import admin_of
from tests.unit.client.transactions import cluster_with, committed, ends, producer_of

COMMITTER = "query"


async def prepare(cluster: FakeCluster, transactional_id: str, *values: bytes, **settings: Any) -> PreparedTransaction:
    async with producer_of(cluster, transactional_id, transactional_id_temporary=True, **settings) as producer:
        await producer.begin_transaction()
        for value in values:
            await producer.send("orders", value)
        prepared = await producer.prepare_transaction()
        assert prepared is not None
        return prepared


async def test_prepared_transactions_are_committed_together_after_their_producers_have_closed() -> None:
    async with cluster_with() as (cluster, transactions), admin_of(cluster) as admin:
        prepared = [await prepare(cluster, each, each.encode()) for each in ("a", "b")]
        assert ends(transactions) == [], "a close leaves what is prepared open"
        assert await committed(cluster) == []
        assert await admin.commit_transactions(COMMITTER, 0, prepared)
        assert await committed(cluster) == [b"a", b"b"]
        assert list(transactions.transactions.by_id) == [COMMITTER], "temporary ids are deleted"


async def test_a_sequence_commits_once() -> None:
    async with cluster_with() as (cluster, _), admin_of(cluster) as admin:
        assert await admin.commit_transactions(COMMITTER, 0, [await prepare(cluster, "a", b"first")])
        again = await prepare(cluster, "b", b"again")
        assert not await admin.commit_transactions(COMMITTER, 0, [again])
        await admin.abort_transactions([again])
        assert await committed(cluster) == [b"first"]


async def test_a_lost_response_is_answered_as_a_repeated_call() -> None:
    async with cluster_with() as (cluster, _), admin_of(cluster) as admin:
        prepared = [await prepare(cluster, "a", b"once")]
        cluster.brokers[1].lost_answers["commit_transactions"] = 1
        assert not await admin.commit_transactions(COMMITTER, 0, prepared)
        await admin.abort_transactions(prepared)
        assert await committed(cluster) == [b"once"]


async def test_nothing_is_committed_if_one_transaction_has_timed_out() -> None:
    async with cluster_with() as (cluster, _), admin_of(cluster) as admin:
        prepared = [await prepare(cluster, "a", b"late", transaction_timeout_ms=1_000)]
        await asyncio.sleep(2)
        prepared.append(await prepare(cluster, "b", b"in time"))
        with pytest.raises(Refusal, match=r"TRANSACTION_ABORTABLE.* 'a' is not known"):
            await admin.commit_transactions(COMMITTER, 0, prepared)
        await admin.abort_transactions(prepared)
        assert await committed(cluster) == []


async def test_without_records_there_is_nothing_to_commit() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        await producer.begin_transaction()
        assert await producer.prepare_transaction() is None


async def test_a_transaction_with_a_record_that_failed_is_not_prepared() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster, max_block_ms=8_000) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"stored")
        with pytest.raises(Refusal, match="missing"):
            await producer.send("missing", b"lost")
        with pytest.raises(TransactionAborted, match="missing"):
            await producer.prepare_transaction()
        await producer.abort_transaction()
        assert await committed(cluster) == []


async def test_a_prepared_transaction_takes_no_more_records_and_may_be_aborted() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"value")
        await producer.prepare_transaction()
        with pytest.raises(TransactionConflict, match="is prepared"):
            await producer.send("orders", b"more")
        with pytest.raises(TransactionConflict, match="is prepared"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert ends(transactions) == [(0, False)]


async def write_and_lose_the_next_end(cluster: FakeCluster, producer: Producer) -> None:
    await producer.begin_transaction()
    await (await producer.send("orders", b"value"))
    cluster.brokers[1].lost_answers["end_txn"] = 1


async def test_an_abort_of_a_temporary_id_may_be_repeated_after_it_was_deleted() -> None:
    async with (
        cluster_with() as (cluster, transactions),
        producer_of(cluster, transactional_id_temporary=True) as producer,
    ):
        await write_and_lose_the_next_end(cluster, producer)
        with pytest.raises(TransactionConflict, match="was deleted"):
            await producer.abort_transaction()
        assert not transactions.transactions.by_id, "it was not created again"


async def test_a_commit_of_a_temporary_id_that_was_deleted_is_not_called_an_abort() -> None:
    """Its records are committed: who obeys the advice to abort and to begin again would write them twice."""
    async with (
        cluster_with() as (cluster, transactions),
        producer_of(cluster, transactional_id_temporary=True) as producer,
    ):
        await write_and_lose_the_next_end(cluster, producer)
        for _ in range(2):
            with pytest.raises(TransactionOutcomeUnknown, match="was committed or aborted"):
                await producer.commit_transaction()
        with pytest.raises(TransactionOutcomeUnknown):
            await producer.begin_transaction()
        assert await committed(cluster) == [b"value"]
        assert not transactions.transactions.by_id, "it was not created again"


async def test_a_commit_that_is_sent_once_after_the_timeout_of_a_temporary_id_is_an_abort() -> None:
    async with (
        cluster_with() as (cluster, _),
        producer_of(cluster, transactional_id_temporary=True, transaction_timeout_ms=1_000) as producer,
    ):
        await producer.begin_transaction()
        await (await producer.send("orders", b"value"))
        await asyncio.sleep(2)
        with pytest.raises(TransactionAborted):
            await producer.commit_transaction()
        assert await committed(cluster) == []


async def test_an_abort_undoes_no_commit_and_takes_any_end_for_one() -> None:
    async with cluster_with() as (cluster, transactions), admin_of(cluster) as admin:
        prepared = [await prepare(cluster, "a", b"value")]
        transactions.holds_markers = True
        await admin.commit_transactions(COMMITTER, 0, prepared)
        await admin.abort_transactions(prepared)
        transactions.write_markers()
        await admin.abort_transactions(prepared)
        assert await committed(cluster) == [b"value"]


async def test_temporary_ids_share_the_partition_of_their_committer() -> None:
    async with cluster_with() as (cluster, _), admin_of(cluster) as admin:
        cluster.create("__transaction_state", partitions=50)
        ids = {await admin.new_transactional_id(COMMITTER) for _ in range(20)}
        assert len(ids) == 20
        assert {partition_of(each, 50) for each in ids} == {partition_of(COMMITTER, 50)}
        assert all(each.startswith(f"{COMMITTER}-") for each in ids)


async def test_a_refused_look_up_names_the_reason() -> None:
    async with cluster_with() as (cluster, _), admin_of(cluster, default_api_timeout_ms=1_000) as admin:
        with pytest.raises(Refusal) as refused:
            await admin.new_transactional_id(COMMITTER)
        assert refused.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_open_transactions_of_a_committer_are_aborted_except_those_that_are_kept() -> None:
    async with cluster_with() as (cluster, transactions), admin_of(cluster) as admin:
        lost, kept = f"a.b-{0:032x}", f"a.b-{1:032x}"
        strange = [f"axb-{2:032x}", f"a.b-other-{3:032x}"]
        prepared = {each: await prepare(cluster, each, each.encode()) for each in (lost, kept, *strange)}
        cluster.scripted_transactions = {
            each: ScriptedTransaction(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
            for each, found in prepared.items()
        }
        assert await admin.abort_other_transactions("a.b", [kept]) == 1
        assert list(transactions.transactions.by_id) == [kept, *strange]
        assert await admin.commit_transactions("a.b", 0, [prepared[each] for each in (kept, *strange)])
        assert await committed(cluster) == [each.encode() for each in (kept, *strange)]
