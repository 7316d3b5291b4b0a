"""Transactions of the asyncio producer, with the coordinator's own shard on a broker in memory."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.errors import (
    DeliveryTimeout,
    ProducerFenced,
    RecordTooLarge,
    TransactionAborted,
    TransactionConflict,
    TransactionTimeout,
)
from kraft.model.errors import ErrorCode, Refusal
from tests.support.virtual_time import virtual_network
from tests.unit.client.transactions import cluster_with, committed, ends, epochs, pay, producer_of


async def test_a_transaction_is_seen_whole_once_it_is_committed() -> None:
    async with cluster_with("orders", "parcels") as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send("orders", b"pizza")
            await (await producer.send("parcels", b"box"))
            assert await committed(cluster, "parcels") == []
        assert await committed(cluster, "orders") == [b"pizza"]
        assert await committed(cluster, "parcels") == [b"box"]
        assert ends(transactions) == [(0, True)]
        assert all(
            request.transactional_id == "payments" for each in cluster.brokers.values() for request in each.produced
        )


async def test_each_transaction_has_an_epoch_and_begins_with_sequence_0() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster, batch_size=1) as producer:
        for number in range(3):
            async with producer.transaction():
                for _ in range(2):
                    await producer.send("orders", b"%d" % number)
        assert epochs(cluster) == [(epoch, sequence) for epoch in range(3) for sequence in range(2)]
        assert ends(transactions) == [(0, True), (1, True), (2, True)]
        assert await committed(cluster) == [b"0", b"0", b"1", b"1", b"2", b"2"]


async def test_an_error_in_the_block_aborts_the_transaction() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        with pytest.raises(ZeroDivisionError):
            await pay(producer, b"wrong", ZeroDivisionError())
        await pay(producer, b"right")
        assert ends(transactions) == [(0, False), (1, True)]
        assert await committed(cluster) == [b"right"]


async def test_an_abort_drops_what_was_not_sent() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster, linger_ms=30_000) as producer:
        await producer.begin_transaction()
        future = await producer.send("orders", b"wrong")
        await producer.abort_transaction()
        with pytest.raises(TransactionAborted, match="orders-0: the transaction of the records is aborted"):
            await future
        assert cluster.values("orders") == []
        assert ends(transactions) == [], "no broker knows of the transaction"


async def test_an_empty_transaction_costs_no_request() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.init_transactions()
        for _ in range(2):
            async with producer.transaction():
                pass
            await producer.begin_transaction()
            await producer.abort_transaction()
        assert len(transactions.requests) == 1


@pytest.mark.parametrize("is_initialised", [True, False])
async def test_a_record_outside_of_a_transaction_is_refused(is_initialised: bool) -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        if is_initialised:
            await producer.init_transactions()
        with pytest.raises(TransactionConflict, match="no transaction is open: call begin_transaction first"):
            await producer.send("orders", b"pizza")
        with pytest.raises(TransactionConflict, match="no transaction is open"):
            await producer.produce_many("orders", [b"pizza"])


async def test_a_producer_without_an_id_has_no_transactions() -> None:
    async with cluster_with() as (cluster, _):
        producer = Producer(cluster.bootstrap_servers, network=virtual_network(cluster))
        with pytest.raises(TransactionConflict, match=r"begin_transaction: .* give transactional\.id"):
            await producer.begin_transaction()
        with pytest.raises(TransactionConflict, match=r"transaction: .* give transactional\.id"):
            async with producer.transaction():
                pass


# --- lost answers and coordinators that move --------------------------------------------------------------------


@pytest.mark.parametrize("committed_", [True, False])
async def test_a_lost_answer_to_the_end_of_a_transaction_is_asked_for_again(committed_: bool) -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        await (await producer.send("orders", b"pizza"))
        cluster.brokers[1].lost_answers["end_txn"] = 2
        await (producer.commit_transaction() if committed_ else producer.abort_transaction())
        assert ends(transactions) == [(0, committed_)] * 3
        async with producer.transaction():
            await producer.send("orders", b"next")
        assert epochs(cluster) == [(0, 0), (1, 0)]
        assert await committed(cluster) == ([b"pizza", b"next"] if committed_ else [b"next"])


async def test_a_lost_answer_to_the_start_is_asked_for_again() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        cluster.brokers[1].lost_answers["init_producer_id"] = 1
        async with producer.transaction():
            await producer.send("orders", b"pizza")
        assert await committed(cluster) == [b"pizza"]


async def test_a_coordinator_that_moves_is_found_again() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        await producer.begin_transaction()
        await producer.send("orders", b"pizza")
        transactions.coordinator_id = 3
        await producer.commit_transaction()
        assert await committed(cluster) == [b"pizza"]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS],
)
async def test_refusals_that_pass_are_retried(code: ErrorCode) -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        transactions.refusals = [Refusal(code, "later")] * 2
        await producer.begin_transaction()
        await producer.send("orders", b"pizza")
        transactions.refusals = [Refusal(code, "later")] * 2
        await producer.commit_transaction()
        assert await committed(cluster) == [b"pizza"]


async def test_records_wait_until_the_markers_of_the_last_transaction_are_written() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        transactions.holds_markers = True
        async with producer.transaction():
            await producer.send("orders", b"first")
        await producer.begin_transaction()
        future = await producer.send("orders", b"second")
        await asyncio.sleep(3)
        assert not future.done()
        transactions.write_markers()
        await producer.commit_transaction()
        assert await committed(cluster) == [b"first", b"second"]


async def test_a_commit_that_times_out_is_repeated_until_it_is_known() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        await producer.begin_transaction()
        await (await producer.send("orders", b"pizza"))
        cluster.brokers[1].hangs = True
        with pytest.raises(TransactionTimeout, match="commit_transaction did not end within 5000 ms"):
            await producer.commit_transaction(timeout_ms=5_000)
        for call in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(TransactionConflict, match="call commit_transaction until it returns"):
                await call()
        cluster.brokers[1].hangs = False
        await producer.commit_transaction()
        assert await committed(cluster) == [b"pizza"]


async def test_a_block_whose_commit_times_out_does_not_abort() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        cluster.brokers[1].lost_answers["end_txn"] = 1_000
        with pytest.raises(TransactionTimeout):
            await pay(producer, b"pizza", timeout_ms=5_000)
        assert await committed(cluster) == [b"pizza"]
        cluster.brokers[1].lost_answers.clear()
        await producer.commit_transaction()
        assert set(ends(transactions)) == {(0, True)}


async def test_a_commit_waits_for_its_records_and_aborts_if_they_are_not_stored_in_time() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        cluster.partition("orders").refusals.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        with pytest.raises(TransactionTimeout, match="last reason: orders-0: NOT_ENOUGH_REPLICAS"):
            async with producer.transaction(timeout_ms=5_000):
                future = await producer.send("orders", b"pizza")
        with pytest.raises(TransactionAborted):
            await future
        assert ends(transactions) == [(0, False)]
        cluster.partition("orders").refusals.clear()
        async with producer.transaction():
            await producer.send("orders", b"again")
        assert await committed(cluster) == [b"again"]


# --- transactions that fail -------------------------------------------------------------------------------------


async def test_a_record_that_expires_fails_its_transaction() -> None:
    settings: dict[str, Any] = {"delivery_timeout_ms": 31_000, "batch_size": 1}
    async with cluster_with("orders", "parcels") as (cluster, _), producer_of(cluster, **settings) as producer:
        await producer.begin_transaction()
        stored = await producer.send("parcels", b"box")
        await stored
        cluster.partition("orders").refusals.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1_000)
        expired = await producer.send("orders", b"pizza")
        with pytest.raises(DeliveryTimeout):
            await expired
        for call in (producer.commit_transaction, producer.begin_transaction):
            with pytest.raises(TransactionAborted, match="orders-0: not acknowledged within"):
                await call()
        with pytest.raises(TransactionAborted, match="send: the transaction"):
            await producer.send("parcels", b"box")
        await producer.abort_transaction()
        cluster.partition("orders").refusals.clear()
        async with producer.transaction():
            await producer.send("orders", b"again")
        assert await committed(cluster, "parcels") == []
        assert await committed(cluster) == [b"again"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_RECORD,
    ],
)
async def test_a_record_that_a_broker_refuses_fails_its_transaction(code: ErrorCode) -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        cluster.partition("orders").refusals.append(code)
        with pytest.raises(TransactionAborted, match=code.name) as caught:
            async with producer.transaction():
                refused = await producer.send("orders", b"wrong")
        assert isinstance(caught.value.__cause__, Refusal)
        with pytest.raises(Refusal, match=code.name):
            await refused
        async with producer.transaction():
            await producer.send("orders", b"right")
        assert await committed(cluster) == [b"right"]


async def test_a_record_that_cannot_be_queued_fails_its_transaction() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster, max_block_ms=3_000) as producer:
        await producer.begin_transaction()
        with pytest.raises(RecordTooLarge):
            await producer.send("orders", bytes(2 << 20))
        with pytest.raises(TransactionAborted, match="MESSAGE_TOO_LARGE"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        with pytest.raises(Refusal):
            await producer.produce_many("nowhere", [b"pizza"])
        with pytest.raises(TransactionAborted, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.commit_transaction()


async def test_a_batch_that_is_too_large_for_its_topic_is_split_under_the_same_epoch() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        cluster.partition("orders").size_max = 500
        async with producer.transaction():
            for number in range(40):
                await producer.send("orders", b"%d" % number)
        assert {epoch for epoch, _ in epochs(cluster)} == {0}
        assert await committed(cluster) == [b"%d" % number for number in range(40)]


async def test_a_transaction_that_takes_too_long_is_aborted_and_the_producer_goes_on() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster, transaction_timeout_ms=5_000) as producer:
        with pytest.raises(TransactionAborted, match="TRANSACTION_ABORTABLE"):
            await pay(producer, b"late", 6)
        with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
            await pay(producer, b"late", 6, b"later")
        await pay(producer, b"in time")
        assert await committed(cluster) == [b"in time"]


async def test_a_producer_whose_id_has_expired_goes_on_after_an_abort() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send("orders", b"before")
        transactions.forget("payments")
        with pytest.raises(TransactionAborted, match="INVALID_PRODUCER_ID_MAPPING"):
            async with producer.transaction():
                await producer.send("orders", b"during")
        async with producer.transaction():
            await producer.send("orders", b"after")
        assert await committed(cluster) == [b"before", b"after"]


# --- fencing ----------------------------------------------------------------------------------------------------


async def test_a_new_producer_fences_the_one_before_it_and_aborts_its_transaction() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as old, producer_of(cluster) as new:
        await old.begin_transaction()
        await (await old.send("orders", b"old"))
        await new.init_transactions()
        async with new.transaction():
            await new.send("orders", b"new")
        with pytest.raises(ProducerFenced, match="used by another producer; close this one") as caught:
            await old.commit_transaction()
        assert caught.value.error_code is ErrorCode.PRODUCER_FENCED
        for call in (old.begin_transaction, old.abort_transaction, old.init_transactions):
            with pytest.raises(ProducerFenced):
                await call()
        assert await committed(cluster) == [b"new"]


async def test_a_fenced_producer_learns_it_at_its_next_record_and_abort() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as old, producer_of(cluster) as new:
        await old.begin_transaction()
        await new.init_transactions()
        with pytest.raises(Refusal, match="INVALID_PRODUCER_EPOCH"):
            await (await old.send("orders", b"old"))
        with pytest.raises(TransactionAborted):
            await old.commit_transaction()
        with pytest.raises(ProducerFenced):
            await old.abort_transaction()


async def test_a_refused_start_ends_the_producer() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster, transaction_timeout_ms=900_001) as producer:
        for _ in range(2):
            with pytest.raises(Refusal, match="INVALID_TRANSACTION_TIMEOUT"):
                await producer.begin_transaction()


async def test_a_start_that_times_out_may_be_repeated() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        cluster.brokers[1].hangs = True
        with pytest.raises(TransactionTimeout, match="init_transactions did not end within 5000 ms"):
            await producer.init_transactions(timeout_ms=5_000)
        cluster.brokers[1].hangs = False
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("orders", b"pizza")


# --- interruptions ----------------------------------------------------------------------------------------------


async def test_a_cancelled_block_aborts_its_transaction() -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        task = asyncio.create_task(pay(producer, b"wrong", 3_600))
        await asyncio.sleep(10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends(transactions) == [(0, False)]
        async with producer.transaction():
            await producer.send("orders", b"right")
        assert await committed(cluster) == [b"right"]


async def test_a_cancelled_commit_is_not_aborted_once_the_coordinator_was_asked() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        cluster.brokers[1].lost_answers["end_txn"] = 1_000
        task = asyncio.create_task(pay(producer, b"pizza"))
        await asyncio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cluster.brokers[1].lost_answers.clear()
        await producer.commit_transaction()
        assert await committed(cluster) == [b"pizza"]


async def test_an_abort_that_fails_is_noted_in_the_error_of_the_block() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer, producer_of(cluster) as other:

        async def block() -> None:
            async with producer.transaction():
                await (await producer.send("orders", b"wrong"))
                await other.init_transactions()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            await block()
        assert "the transaction was not aborted: PRODUCER_FENCED" in caught.value.__notes__[0]


@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
async def test_a_transaction_that_the_block_ends_is_left_as_it_is(call: str) -> None:
    async with cluster_with() as (cluster, transactions), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send("orders", b"pizza")
            await getattr(producer, call)()
        assert len(ends(transactions)) <= 1


async def test_a_block_in_another_does_not_end_that_one() -> None:
    async with cluster_with() as (cluster, _), producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send("orders", b"pizza")
            with pytest.raises(TransactionConflict, match="a transaction is open"):
                async with producer.transaction():
                    pass
        assert await committed(cluster) == [b"pizza"]


async def test_a_closed_producer_leaves_no_transaction_open() -> None:
    async with cluster_with() as (cluster, transactions):
        producer = producer_of(cluster)
        await producer.begin_transaction()
        await (await producer.send("orders", b"wrong"))
        await producer.close()
        assert ends(transactions) == [(0, False)]

        async def fail() -> None:
            async with producer_of(cluster) as another:
                await another.begin_transaction()
                await (await another.send("orders", b"wrong"))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert [each for _, each in ends(transactions)] == [False, False]
        assert await committed(cluster) == []


async def test_a_close_that_cannot_abort_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster_with() as (cluster, _):
        caplog.set_level(logging.WARNING, "kraft.client")
        producer = producer_of(cluster)
        await producer.begin_transaction()
        await (await producer.send("orders", b"wrong"))
        cluster.brokers[1].hangs = True
        await producer.close(timeout_ms=5_000)
        (message,) = [each.message for each in caplog.records if "transaction" in each.message]
        assert message.startswith("producer closed with an open transaction")
