"""Real brokers under much work, which record every sync on the thread of their event loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.client import Admin, Producer, TopicPartition
from kraft.testing import Cluster
from tests.end_to_end.storage import sync_watching_node
from tests.support.records import bounds
from tests.support.waiting import until, until_in_sync

CONTROLLER = 1
BROKERS = (2, 3, 4)
OFTEN = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "metadata.log.max.snapshot.interval.ms": "2000",
}
VALUE = b"x" * 500


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "notes"
    directory.mkdir()
    monkeypatch.setenv(sync_watching_node.VARIABLE, str(directory))
    return directory


@pytest.fixture
def cluster(notes: Path) -> Iterator[Cluster]:
    cluster = Cluster(roles=["controller", "broker", "broker", "broker"], nodes=4, overrides=OFTEN)
    for node in (CONTROLLER, *BROKERS):
        cluster.node(node)._command = (sys.executable, "-m", sync_watching_node.__name__)
    with cluster:
        yield cluster


def publish(cluster: Cluster, topic: str, count: int, *, key: bytes | None = None) -> None:
    """Publish each record in a batch of its own."""
    with Producer(cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
        for number in range(count):
            producer.send(topic, VALUE, key=key or b"%d" % (number % 5)).result(60)


def leader_of(admin: Admin, topic: str) -> int:
    return admin.describe_topics([topic])[0].metadata.partitions[0].leader_id


def appends_epochs_and_retention(cluster: Cluster, admin: Admin) -> None:
    small = {"segment.bytes": "4096", "file.delete.delay.ms": "0", "min.insync.replicas": "1"}
    admin.create_topic("dropped", 1, 3, {**small, "retention.bytes": "16384"})
    admin.create_topic("compacted", 1, 3, {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    for topic in ("dropped", "compacted"):
        publish(cluster, topic, 60)
    until(lambda: bounds(cluster.bootstrap_servers, TopicPartition("dropped", 0))[0] > 0, "retention drops nothing")
    killed = leader_of(admin, "dropped")
    cluster.node(killed).kill()
    for topic in ("dropped", "compacted"):
        publish(cluster, topic, 30)
    cluster.node(killed).start()
    cluster.wait_ready()
    for topic in ("dropped", "compacted"):
        until_in_sync(admin, topic)


def a_follower_begins_anew(cluster: Cluster, admin: Admin) -> None:
    """The follower was down while all its records were deleted."""
    admin.create_topic("deleted", 1, 3, {"min.insync.replicas": "1", "segment.bytes": "4096"})
    publish(cluster, "deleted", 10)
    away = next(broker for broker in BROKERS if broker != leader_of(admin, "deleted"))
    cluster.node(away).terminate()
    publish(cluster, "deleted", 30)
    place = TopicPartition("deleted", 0)
    admin.delete_records({place: 35}, timeout_ms=20_000)
    assert bounds(cluster.bootstrap_servers, place) == (35, 40)
    cluster.node(away).start()
    cluster.wait_ready()
    until_in_sync(admin, "deleted")


def a_follower_truncates(cluster: Cluster, admin: Admin) -> None:
    """An unclean election loses the records that only one replica has."""
    admin.create_topic(
        "unclean", 1, 3, {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "segment.bytes": "4096"}
    )
    publish(cluster, "unclean", 5)
    alone = leader_of(admin, "unclean")
    others = [broker for broker in BROKERS if broker != alone]
    for broker in others:
        cluster.node(broker).kill()
    publish(cluster, "unclean", 20)
    cluster.node(alone).kill()
    for broker in others:
        cluster.node(broker).start()
    cluster.wait_ready()
    until(lambda: leader_of(admin, "unclean") in others, "nobody is elected uncleanly")
    publish(cluster, "unclean", 2)
    cluster.node(alone).start()
    cluster.wait_ready()
    until_in_sync(admin, "unclean")
    assert bounds(cluster.bootstrap_servers, TopicPartition("unclean", 0)) == (0, 7)


def logged(cluster: Cluster, event: str) -> bool:
    return any(event in cluster.node(broker).log_path.read_text() for broker in BROKERS)


@pytest.mark.slow
def test_no_sync_runs_on_the_event_loops_thread(cluster: Cluster, notes: Path) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        appends_epochs_and_retention(cluster, admin)
        a_follower_begins_anew(cluster, admin)
        a_follower_truncates(cluster, admin)
        assert logged(cluster, "log truncated")
        until(lambda: logged(cluster, "log compacted"), "nothing is compacted")
        admin.delete_topics(["dropped", "unclean"])
        admin.create_topic("dropped", 3, 3)
        publish(cluster, "dropped", 5)
        until(lambda: logged(cluster, "deleted replicas removed"), "nothing is deleted")
    for node in (*BROKERS, CONTROLLER):
        cluster.node(node).terminate()
    on_loop = [line for path in notes.glob("*.on-loop") for line in path.read_text().splitlines()]
    elsewhere = [line for path in notes.glob("*.elsewhere") for line in path.read_text().splitlines()]
    counts: dict[str, int] = {}
    for line in on_loop:
        where = line.partition(" ")[2]
        counts[where] = counts.get(where, 0) + 1
    print(f"{len(on_loop)} syncs on the event loop's thread, {len(elsewhere)} elsewhere ({os.uname().sysname})")
    assert len(elsewhere) > 500
    assert counts == {}
    # A read without a free file is repeated by the client, and nothing has failed.
    opened = {line for path in notes.glob("*.opened-on-loop") for line in path.read_text().splitlines()}
    assert {where for where in opened if "partition_log.read" not in where} == set()
