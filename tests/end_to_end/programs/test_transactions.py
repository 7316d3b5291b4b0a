"""Transactions of this project's own clients against real nodes, while producers, consumers and brokers die."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

from kraft.client import (
    Admin,
    CommitFailed,
    Consumer,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionAborted,
    TransactionTimeout,
    aio,
)
from kraft.testing import Cluster
from tests.support.command_line import DEADLINE_S, kraft
from tests.support.waiting import until_stable

PARTITIONS = 3
CALL_MS = int(DEADLINE_S * 1_000)

QUICK_GROUPS = {
    # A member hears of its partitions with a heartbeat, and they are assigned a second after its first one.
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides=QUICK_GROUPS) as running:
        yield running


def create(cluster: Cluster, *topics: str) -> None:
    with Admin(cluster.bootstrap_servers, default_api_timeout_ms=CALL_MS) as admin:
        for topic in topics:
            admin.create_topic(topic, PARTITIONS, 3)


def producer_of(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, transactional_id=transactional_id, max_block_ms=CALL_MS, **settings)


def values(cluster: Cluster, topic: str, isolation_level: str = "read_committed") -> Counter[bytes | None]:
    """Return the values that a reader of this isolation level sees once all transactions have ended."""
    until_stable(cluster.bootstrap_servers, [topic])
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Consumer(cluster.bootstrap_servers, isolation_level=isolation_level) as consumer:
        return Counter(
            value
            for place, end in consumer.end_offsets(places).items()
            for part in consumer.read_columns(place, 0, end, timeout_ms=CALL_MS)
            for value in part.columns.values
        )


def transact(producer: Producer, work: Callable[[], object]) -> None:
    """Run a transaction until it is committed: again if it has failed, and commit until the outcome is known."""
    while True:
        try:
            with producer.transaction():
                work()
        except TransactionAborted:
            continue
        except TransactionTimeout:
            producer.commit_transaction()
        return


def send_all(producer: Producer, topic: str, names: Iterable[bytes]) -> None:
    for each in names:
        producer.send(topic, each, key=each)


def test_transactions_are_seen_whole_or_not_at_all(cluster: Cluster) -> None:
    create(cluster, "payments")

    def send(number: int) -> None:
        for partition in range(PARTITIONS):
            producer.send("payments", b"%d" % number, partition=partition).result(DEADLINE_S)
        if number % 2:
            raise ZeroDivisionError

    with producer_of(cluster, "payments") as producer:
        for number in range(6):
            try:
                with producer.transaction():
                    send(number)
            except ZeroDivisionError:
                continue
    committed = {b"0": PARTITIONS, b"2": PARTITIONS, b"4": PARTITIONS}
    assert values(cluster, "payments") == committed
    assert len(values(cluster, "payments", "read_uncommitted")) == 6
    read = ("consume", "payments", "--from-beginning", "--max-messages")
    out = kraft(cluster, *read, str(3 * PARTITIONS), "--isolation-level", "read_committed")
    assert Counter(out.split()) == {each.decode(): count for each, count in committed.items()}
    assert len(set(kraft(cluster, *read, str(6 * PARTITIONS)).split())) == 6


def test_a_new_producer_ends_what_an_earlier_one_left_open_and_fences_it(cluster: Cluster) -> None:
    create(cluster, "fenced")
    with producer_of(cluster, "fenced") as old, producer_of(cluster, "fenced") as new:
        old.begin_transaction()
        old.send("fenced", b"old").result(DEADLINE_S)
        with new.transaction():
            new.send("fenced", b"new")
        with pytest.raises(ProducerFenced, match="close this one"):
            old.commit_transaction()
        with new.transaction():
            new.send("fenced", b"newer")
    assert values(cluster, "fenced") == {b"new": 1, b"newer": 1}


def test_a_transaction_that_nobody_ends_does_not_hold_readers_back(cluster: Cluster) -> None:
    create(cluster, "left")
    with producer_of(cluster, "left", transaction_timeout_ms=1_000) as producer:
        producer.begin_transaction()
        producer.send("left", b"open").result(DEADLINE_S)
        producer.close(timeout_ms=0)
    assert values(cluster, "left") == {}


def test_a_producer_goes_on_after_its_transaction_has_timed_out(cluster: Cluster) -> None:
    create(cluster, "late")
    with producer_of(cluster, "late", transaction_timeout_ms=1_000) as producer:
        producer.begin_transaction()
        producer.send("late", b"late").result(DEADLINE_S)
        until_stable(cluster.bootstrap_servers, ["late"])
        with pytest.raises(TransactionAborted, match="TRANSACTION_ABORTABLE"):
            producer.commit_transaction()
        producer.abort_transaction()
        transact(producer, lambda: producer.send("late", b"in time"))
    assert values(cluster, "late") == {b"in time": 1}


def test_the_asyncio_clients_do_the_same(cluster: Cluster) -> None:
    create(cluster, "async")

    async def run() -> list[bytes | None]:
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with aio.Producer(cluster.bootstrap_servers, transactional_id="async", max_block_ms=CALL_MS) as producer:
            async with producer.transaction():
                await producer.send("async", b"kept", partition=0)
            await producer.begin_transaction()
            await (await producer.send("async", b"dropped", partition=0))
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("async", b"last", partition=0)
        async with aio.Consumer(cluster.bootstrap_servers, **settings) as consumer, asyncio.timeout(DEADLINE_S):
            consumer.assign([TopicPartition("async", 0)])
            found: list[bytes | None] = []
            while len(found) < 2:
                found += [record.value for record in await consumer.poll()]
            return found

    assert asyncio.run(run()) == [b"kept", b"last"]


def copy(cluster: Cluster, *, transactions_max: int | None = None) -> None:
    """Copy the rest of a topic to another one. Fails within a transaction after so many others."""
    settings: dict[str, Any] = {"group_id": "copy", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with (
        Consumer(cluster.bootstrap_servers, **settings, max_poll_records=100) as consumer,
        producer_of(cluster, "copy") as producer,
    ):
        producer.init_transactions()
        consumer.subscribe("input")
        while not is_copied(consumer):
            if not (records := consumer.poll()):
                continue
            with producer.transaction():
                for record in records:
                    producer.send("output", record.value, key=record.key)
                producer.send_offsets_to_transaction(consumer.consumed(), consumer.group_metadata())
                if transactions_max == 0:
                    raise ZeroDivisionError
            if transactions_max is not None:
                transactions_max -= 1


def is_copied(consumer: Consumer) -> bool:
    """True if the group has read all of the topic."""
    ends = consumer.end_offsets([TopicPartition("input", number) for number in range(PARTITIONS)])
    committed = consumer.committed(ends)
    return all((found := committed[place]) is not None and found.offset == end for place, end in ends.items())


def fill_input(cluster: Cluster, count: int) -> list[bytes]:
    create(cluster, "input", "output")
    names = [b"%d" % number for number in range(count)]
    with Producer(cluster.bootstrap_servers) as producer:
        producer.produce_many("input", names, names).result(DEADLINE_S)
    return names


@pytest.mark.slow
def test_records_and_offsets_are_committed_together_although_the_program_fails(cluster: Cluster) -> None:
    """Each run fails within a transaction, and the next one continues with a new consumer."""
    names = fill_input(cluster, 2_000)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            copy(cluster, transactions_max=4)
    copy(cluster)
    assert values(cluster, "output") == Counter(names)


@pytest.fixture
def killed_cluster() -> Iterator[tuple[Cluster, threading.Event]]:
    """Nodes that are killed and started again one after the other, and an event for when that is over."""
    with Cluster(3, overrides=QUICK_GROUPS) as cluster:
        is_over = threading.Event()
        failures: list[Exception] = []

        def kill() -> None:
            try:
                for node_id in (1, 2, 3):
                    cluster.node(node_id).kill()
                    cluster.node(node_id).start()
                    cluster.wait_ready()
            except Exception as error:  # noqa: BLE001  In a thread, nobody would hear of it; the fixture asserts that there was none.
                failures.append(error)
            finally:
                is_over.set()

        create(cluster, "orders")
        names = fill_input(cluster, 3_000)
        assert len(names) == 3_000
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        yield cluster, is_over
        killer.join(DEADLINE_S)
        assert failures == []


@pytest.mark.slow
def test_transactions_neither_lose_nor_repeat_records_while_brokers_are_killed(
    killed_cluster: tuple[Cluster, threading.Event],
) -> None:
    cluster, is_over = killed_cluster
    sent: list[bytes] = []
    with producer_of(cluster, "orders") as producer:
        while not is_over.is_set() or len(sent) < 100:
            numbers = [b"%d" % number for number in range(len(sent), len(sent) + 10)]
            transact(producer, partial(send_all, producer, "orders", numbers))
            sent += numbers
    assert values(cluster, "orders") == Counter(sent)


@pytest.mark.slow
def test_a_copy_has_each_record_once_although_brokers_are_killed(
    killed_cluster: tuple[Cluster, threading.Event],
) -> None:
    cluster, is_over = killed_cluster
    is_complete = False
    while not (is_complete and is_over.is_set()):
        try:
            copy(cluster)
            is_complete = True
        except (TransactionAborted, TransactionTimeout, CommitFailed):
            continue
    assert values(cluster, "output") == Counter(b"%d" % number for number in range(3_000))
