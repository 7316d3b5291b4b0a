"""`kraft transactions` and Kafka's `kafka-transactions.sh`, unmodified, on one cluster: both show the same.

Kafka's tool aborts by a request that could as well commit anybody's transaction, and so it is refused that.

The cluster has a committed, an open and a hanging transaction in each of two topics. Brokers do not verify transactions
here, as brokers before KIP-890 did not: that is how transactions came to hang.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kraft.client import Admin, KraftError
from kraft.client import TopicPartition as KraftPartition
from kraft.testing import Cluster
from tests.end_to_end.kafka.known_topics import until_known
from tests.support.command_line import kraft, run_kraft
from tests.support.kafka.kafka_jars import Finished, kafka_jars, run_kafka_tool
from tests.support.kafka.transactions.hanging import hang
from tests.support.waiting import until

# Fetching the jars may come first, once.
pytestmark = pytest.mark.timeout(300)

TOPICS = ("by-kraft", "by-kafka")
"""Each tool is to abort the hanging transaction of its topic."""

HANGING_IDS = {"by-kraft": 4_711, "by-kafka": 4_712}
TIMEOUT_MS = 600_000
UNUSED = "größe 😀"
"""Transactional id of a producer that has begun no transaction."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    overrides = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "3",
    }
    with Cluster(3, overrides=overrides) as running:
        yield running


@pytest.fixture(scope="module")
def open_transaction(cluster: Cluster) -> Iterator[None]:
    """The transactions; the producer of the open one lives as long as the fixture."""
    with Admin(cluster.bootstrap_servers) as admin:
        for topic in TOPICS:
            admin.create_topic(topic, 2, 3)
    for topic in TOPICS:
        until_known(cluster, topic, 2)
        hang(cluster, topic, HANGING_IDS[topic])
    committing, opening = (transactional(cluster, transactional_id) for transactional_id in ("paid", "paying"))
    for producer in (committing, opening):
        producer.begin_transaction()
        for topic in TOPICS:
            producer.produce(topic, b"decided", partition=0 if producer is committing else 1)
        producer.flush(60)
    committing.commit_transaction(60)
    transactional(cluster, UNUSED)
    yield
    opening.abort_transaction(60)


def transactional(cluster: Cluster, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.kafka_bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TIMEOUT_MS,
        }
    )
    producer.init_transactions(60)
    return producer


# --- the two tools ----------------------------------------------------------------------------------------------------


def run_kafka(cluster: Cluster, *arguments: str) -> Finished:
    servers = ("--bootstrap-server", cluster.kafka_bootstrap_servers)
    return run_kafka_tool(kafka_jars(), "org.apache.kafka.tools.TransactionsCommand", *servers, *arguments)


def by_kafka(cluster: Cluster, *arguments: str) -> list[list[str]]:
    done = run_kafka(cluster, *arguments)
    assert (done.code, done.errors) == (0, "")
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in done.output.splitlines()]


def by_kraft(cluster: Cluster, *arguments: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in kraft(cluster, "transactions", *arguments).splitlines()]


def tables(cluster: Cluster, *arguments: str) -> tuple[list[list[str]], list[list[str]]]:
    """The rows that both tools print; ours without the columns that Kafka does not have, and as Kafka's tool sorts."""
    theirs, ours = by_kafka(cluster, *arguments), by_kraft(cluster, *arguments)
    (titles, *rows), (our_titles, *our_rows) = theirs, ours
    assert our_titles[: len(titles)] == titles
    shown = [["" if cell == "None" else cell for cell in row[: len(titles)]] for row in our_rows]
    return sorted(shown), sorted([["" if cell == "None" else cell for cell in row] for row in rows])


# --- tests ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("open_transaction")
def test_both_tools_list_the_same(cluster: Cluster) -> None:
    ours, theirs = tables(cluster, "list")
    assert ours == theirs
    listed = [(UNUSED, "Empty"), ("paid", "CompleteCommit"), ("paying", "Ongoing")]
    assert [(row[0], row[3]) for row in ours] == listed
    for option, value, expected in (
        ("--duration-filter", str(TIMEOUT_MS), [UNUSED]),
        ("--transactional-id-pattern", "pa.d", ["paid"]),
        ("--transactional-id-pattern", "(?i)GR[Ä-Ü]SS?E .|gr[^a-z]{2}e .", [UNUSED]),
    ):
        ours, theirs = tables(cluster, "list", option, value)
        assert ours == theirs
        assert [row[0] for row in ours] == expected
    refused = run_kraft(cluster, "transactions", "list", "--pattern", "(pa")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("kraft: INVALID_REGULAR_EXPRESSION: the regular expression '(pa' is not valid: ")


@pytest.mark.usefixtures("open_transaction")
@pytest.mark.parametrize("transactional_id", ["paid", "paying", UNUSED])
def test_both_tools_describe_the_same(cluster: Cluster, transactional_id: str) -> None:
    (ours,), (theirs,) = tables(cluster, "describe", "--transactional-id", transactional_id)
    # The one asked before the other. A producer that has begun no transaction has no duration.
    ours_ms, theirs_ms = (int(row.pop(7) or -1) for row in (ours, theirs))
    assert theirs_ms <= ours_ms
    assert (ours_ms < 0) == (transactional_id == UNUSED)
    partitions = [set(row.pop(7).split(",")) for row in (ours, theirs)]
    assert partitions[0] == partitions[1]
    assert partitions[0] == ({f"{topic}-1" for topic in TOPICS} if transactional_id == "paying" else {""})
    assert ours == theirs


@pytest.mark.usefixtures("open_transaction")
@pytest.mark.parametrize("partition", [0, 1])
def test_both_tools_describe_the_same_producers(cluster: Cluster, partition: int) -> None:
    where = ("--topic", "by-kraft", "--partition", str(partition))
    for options in ((), ("--broker-id", "1"), ("--broker-id", "3")):
        ours, theirs = tables(cluster, "describe-producers", *where, *options)
        assert ours == theirs
        if not options:
            # The producer of the open transaction is the only one of partition 1.
            assert [row[5] != "" for row in ours] == ([False, True] if partition == 0 else [True])


@pytest.mark.usefixtures("open_transaction")
@pytest.mark.parametrize("topic", TOPICS)
def test_a_hanging_transaction_is_found_and_aborted_and_consumers_go_on(cluster: Cluster, topic: str) -> None:
    with read_committed(cluster, topic) as consumer:
        assert end(consumer, topic) == 0
        ours, theirs = tables(cluster, "find-hanging", "--topic", topic)
        assert ours == theirs
        (found,) = ours
        assert found[:6] == [topic, "0", str(HANGING_IDS[topic]), "3", "-1", "0"]
        done = run_kraft(cluster, "transactions", "find-hanging", topic, "--output", "json")
        (named,) = json.loads(done.stdout)
        assert (named["holds_last_stable_offset"], named["transactional_id"]) == (True, None)
        assert 20 * 60 <= named["duration_seconds"] < 30 * 60
        where = ("--topic", topic, "--partition", "0", "--start-offset", "0")
        assert by_kraft(cluster, "abort", *where)[1][:6] == found[:6]
        assert end(consumer, topic) == 0
        if topic == "by-kafka":
            refused = run_kafka(cluster, "abort", *where)
            assert "failed due to cluster authorization error" in refused.errors
            kraft(cluster, "transactions", "abort", *where, "--execute")
        else:
            command = run_kraft(cluster, "transactions", "find-hanging", topic).stderr.strip().partition(": kraft ")[2]
            kraft_arguments = command.split()[:-2]
            assert kraft_arguments[:2] == ["transactions", "abort"]
            kraft(cluster, *kraft_arguments)
        # The undecided record, the committed one with its marker, and the abort marker.
        until(lambda: end(consumer, topic) == 4, "the last stable offset has not moved")
        assert values(consumer, 1) == [b"decided"]
    assert tables(cluster, "find-hanging", "--topic", topic) == ([], [])


@pytest.mark.usefixtures("open_transaction")
def test_a_transaction_that_its_coordinator_has_is_aborted_by_nobody_else(cluster: Cluster) -> None:
    (found,) = by_kraft(cluster, "describe-producers", "--topic", "by-kraft", "--partition", "1")[1:]
    refused = run_kraft(
        *(cluster, "transactions", "abort", "--topic", "by-kraft", "--partition", "1"),
        *("--start-offset", found[5], "--execute"),
    )
    assert refused.returncode == 1
    assert "the transaction does not hang" in refused.stderr
    with Admin(cluster.bootstrap_servers) as admin:
        place = KraftPartition("by-kraft", 1)
        with pytest.raises(KraftError, match=r"INVALID_TXN_STATE.*'paying'"):
            admin.abort_transaction(place, int(found[0]), int(found[1]), 0)


@contextmanager
def read_committed(cluster: Cluster, topic: str) -> Iterator[Consumer]:
    """A consumer of committed records from the start of the first partition."""
    settings = {
        "bootstrap.servers": cluster.kafka_bootstrap_servers,
        "group.id": f"reader of {topic}",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        yield consumer


def end(consumer: Consumer, topic: str) -> int:
    """The last stable offset."""
    offset: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1]
    return offset


def values(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def have_come() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) >= count

    until(have_come, f"{count} committed records have not come")
    return found
