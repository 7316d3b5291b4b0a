"""Transactions that many producers prepare and one client commits, on real nodes that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from kraft.client import Admin, Consumer, KraftError, PreparedTransaction, Producer, Refusal, TopicPartition
from kraft.testing import Cluster
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)

TIMEOUT_S = 60
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    return name


def producer_of(cluster: Cluster, transactional_id: str, timeout_ms: int = 300_000) -> Producer:
    return Producer(
        cluster.bootstrap_servers,
        transactional_id=transactional_id,
        transactional_id_temporary=True,
        transaction_timeout_ms=timeout_ms,
    )


def prepare(
    cluster: Cluster, admin: Admin, topic: str, *values: bytes, timeout_ms: int = 300_000
) -> PreparedTransaction:
    """Write to all partitions, and leave the transaction open; the committer has the name of the topic."""
    with producer_of(cluster, admin.new_transactional_id(topic), timeout_ms) as producer:
        producer.begin_transaction()
        for value in values:
            for partition in range(PARTITIONS):
                producer.send(topic, value, partition=partition)
        prepared = producer.prepare_transaction()
        assert prepared is not None
        return prepared


def committed(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Return the values up to the end of each partition, sorted: no transaction may be open in them."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    with Consumer(cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        ends = consumer.end_offsets(partitions)
        read = (part for each in partitions for part in consumer.read_columns(each, 0, ends[each]))
        return sorted((value for part in read for value in part.columns.values), key=lambda value: value or b"")


def ids_of(admin: Admin, committer: str) -> set[str]:
    return {each.transactional_id for each in admin.list_transactions(pattern=f"{committer}.*")}


def until_ended(admin: Admin, committer: str, left: set[str]) -> None:
    until(lambda: ids_of(admin, committer) == left, f"the ids of {committer} are not {left}")


def values_of(*values: bytes) -> list[bytes]:
    return sorted(values * PARTITIONS)


def test_prepared_transactions_are_committed_together_once(cluster: Cluster, admin: Admin, topic: str) -> None:
    first = [prepare(cluster, admin, topic, value) for value in (b"a", b"b")]
    assert committed(cluster, topic) == []
    assert admin.commit_transactions(topic, 0, first)
    until_ended(admin, topic, {topic})
    again = [prepare(cluster, admin, topic, value) for value in (b"c", b"d")]
    assert not admin.commit_transactions(topic, 0, again)
    admin.abort_transactions([*again, *first])
    until_ended(admin, topic, {topic})
    assert committed(cluster, topic) == values_of(b"a", b"b")


@pytest.mark.slow
def test_drivers_that_commit_the_same_batch_at_once_commit_one(cluster: Cluster, admin: Admin, topic: str) -> None:
    runs = [[prepare(cluster, admin, topic, b"%d" % run) for _ in range(2)] for run in range(4)]
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda run: admin.commit_transactions(topic, 5, run), runs))
    assert sorted(answers) == [False, False, False, True]
    for run in runs:
        admin.abort_transactions(run)
    until_ended(admin, topic, {topic})
    winner = answers.index(True)
    assert committed(cluster, topic) == values_of(b"%d" % winner, b"%d" % winner)


@pytest.mark.slow
def test_a_producer_that_writes_on_is_refused_after_the_commit(cluster: Cluster, admin: Admin, topic: str) -> None:
    """Neither in a partition that it has written to, nor in another one, nor after its id was deleted."""
    zombie_id = admin.new_transactional_id(topic)
    with producer_of(cluster, zombie_id) as zombie, Admin(cluster.bootstrap_servers) as driver:
        zombie.begin_transaction()
        zombie.send(topic, b"before", partition=0).result(TIMEOUT_S)
        described = driver.describe_transactions([zombie_id])[zombie_id]
        assert not isinstance(described, Refusal)
        prepared = PreparedTransaction(
            transactional_id=zombie_id, producer_id=described.producer_id, producer_epoch=described.producer_epoch
        )
        assert driver.commit_transactions(topic, 0, [prepared])
        until_ended(admin, topic, {topic})
        for partition in range(2):
            with pytest.raises(KraftError):
                zombie.send(topic, b"after", partition=partition).result(TIMEOUT_S)
        with suppress(KraftError):
            zombie.abort_transaction()
    assert committed(cluster, topic) == [b"before"]
    assert ids_of(admin, topic) == {topic}


def test_transactions_of_lost_producers_are_aborted_by_their_driver(cluster: Cluster, admin: Admin, topic: str) -> None:
    for value in (b"lost", b"lost too"):
        prepare(cluster, admin, topic, value)
    kept = prepare(cluster, admin, topic, b"kept")
    assert admin.abort_other_transactions(topic, {kept.transactional_id}) == 2
    assert admin.commit_transactions(topic, 0, [kept])
    until_ended(admin, topic, {topic})
    assert committed(cluster, topic) == values_of(b"kept")


def test_nothing_is_committed_if_one_transaction_has_timed_out(cluster: Cluster, admin: Admin, topic: str) -> None:
    prepared = [prepare(cluster, admin, topic, b"late", timeout_ms=500), prepare(cluster, admin, topic, b"in time")]
    until(lambda: prepared[0].transactional_id not in ids_of(admin, topic), "the transaction has not timed out")
    with pytest.raises(Refusal, match=r"TRANSACTION_ABORTABLE: nothing was committed"):
        admin.commit_transactions(topic, 0, prepared)
    admin.abort_transactions(prepared)
    until_ended(admin, topic, set())
    assert committed(cluster, topic) == []


@pytest.mark.slow
def test_a_killed_coordinator_commits_a_batch_once(cluster: Cluster, admin: Admin, topic: str) -> None:
    """Killed before the request, or while it is under way; each time another broker takes over, and then it is back."""
    expected: list[bytes] = []
    for sequence in range(4):
        value = b"%d" % sequence
        prepared = [prepare(cluster, admin, topic, value) for _ in range(3)]
        described = admin.describe_transactions([prepared[0].transactional_id])[prepared[0].transactional_id]
        assert not isinstance(described, Refusal)
        coordinator = cluster.node(described.coordinator.node_id)
        with ThreadPoolExecutor() as threads:
            if sequence % 2:
                answer = threads.submit(admin.commit_transactions, topic, sequence, prepared)
                coordinator.kill()
            else:
                coordinator.kill()
                answer = threads.submit(admin.commit_transactions, topic, sequence, prepared)
            if not answer.result(TIMEOUT_S):
                # The response of the attempt that committed was lost, or another one has.
                admin.abort_transactions(prepared)
        coordinator.start()
        cluster.wait_ready()
        until_ended(admin, topic, {topic})
        expected += values_of(value, value, value)
        assert committed(cluster, topic) == expected
