"""Transactions of the synchronous producer, from ordinary threads and in real time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraft.client import Consumer, Producer, Refusal, TransactionAborted, TransactionConflict, TransactionOutcomeUnknown
from kraft.client.cluster.network import Network
from kraft.client.threads.loop_thread import shared_loop
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_transactions import FakeTransactions

LIMIT_S = 60


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    # Made on the loop that the clients use, as its events belong to one loop.
    async def make() -> FakeCluster:
        made = FakeCluster()
        made.transactions = FakeTransactions(made)
        made.create("orders")
        return made

    async def close(made: FakeCluster) -> None:
        assert made.transactions is not None
        made.transactions.close()

    made = shared_loop().run(make)
    yield made
    shared_loop().run(lambda: close(made))


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer:
    network = Network(connect=lambda: cluster)
    return Producer(cluster.bootstrap_servers, network=network, transactional_id="payments", **settings)


def committed(cluster: FakeCluster) -> list[bytes | None]:
    network = Network(connect=lambda: cluster)
    with Consumer(cluster.bootstrap_servers, network=network, isolation_level="read_committed") as consumer:
        (end,) = consumer.end_offsets([tp("orders")]).values()
        parts = consumer.read_columns(tp("orders"), 0, end)
        return [value for part in parts for value in part.columns.values]


def send_and_fail(producer: Producer, error: BaseException) -> None:
    with producer.transaction():
        producer.send("orders", b"wrong")
        raise error


def test_a_block_whose_commit_is_not_known_any_more_says_so(cluster: FakeCluster) -> None:
    with producer_of(cluster, transactional_id_temporary=True) as producer:
        cluster.brokers[1].lost_answers["end_txn"] = 1
        with pytest.raises(TransactionOutcomeUnknown), producer.transaction():
            producer.send("orders", b"value")
    assert committed(cluster) == [b"value"]


def test_a_block_commits_what_was_sent_in_it(cluster: FakeCluster) -> None:
    with producer_of(cluster) as producer:
        for first in (0, 50):
            with producer.transaction():
                futures = [producer.send("orders", b"%d" % number) for number in range(first, first + 50)]
            assert all(future.done() for future in futures)
    assert committed(cluster) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyboardInterrupt()])
def test_a_block_that_raises_aborts(cluster: FakeCluster, error: BaseException) -> None:
    with producer_of(cluster) as producer:
        with pytest.raises(type(error)):
            send_and_fail(producer, error)
        with producer.transaction():
            producer.send("orders", b"right")
    assert committed(cluster) == [b"right"]


def test_the_calls_may_be_made_one_by_one(cluster: FakeCluster) -> None:
    with producer_of(cluster) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"wrong").result(LIMIT_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.produce_many("orders", [b"right"])
        producer.commit_transaction()
    assert committed(cluster) == [b"right"]


def test_a_record_outside_of_a_transaction_is_refused_at_once(cluster: FakeCluster) -> None:
    with producer_of(cluster) as producer:
        with pytest.raises(TransactionConflict, match="no transaction is open"):
            producer.send("orders", b"pizza")
        producer.begin_transaction()
        producer.commit_transaction()
        with pytest.raises(TransactionConflict, match="no transaction is open"):
            producer.send("orders", b"pizza")


@pytest.mark.parametrize(("topic", "partition", "reason"), [("nowhere", None, "nowhere"), ("orders", 99, "not 99")])
def test_a_record_without_a_topic_or_partition_fails_its_transaction(
    cluster: FakeCluster, topic: str, partition: int | None, reason: str
) -> None:
    with producer_of(cluster, max_block_ms=2_000) as producer:
        producer.begin_transaction()
        # The topic of the first record is looked up, and with it that of the other, before its partition is.
        producer.send("orders", b"pizza")
        missing = producer.send(topic, b"pizza", partition=partition)
        with pytest.raises(TransactionAborted, match=reason):
            producer.commit_transaction(timeout_ms=LIMIT_S * 1_000)
        with pytest.raises(Refusal):
            missing.result(LIMIT_S)
        with pytest.raises(TransactionAborted, match="call abort_transaction"):
            producer.send("orders", b"pizza")
        producer.abort_transaction()
    assert committed(cluster) == []


def test_what_is_queued_when_its_transaction_is_aborted_does_not_get_into_the_next(cluster: FakeCluster) -> None:
    with producer_of(cluster) as producer:
        producer.begin_transaction()
        futures = [producer.send("orders", b"wrong") for _ in range(1_000)]
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"right")
        outcomes = {type(future.exception(LIMIT_S)) for future in futures}
    assert outcomes <= {type(None), TransactionAborted, TransactionConflict}
    assert committed(cluster) == [b"right"]
