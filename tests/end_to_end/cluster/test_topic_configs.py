"""Configs of topics on a running cluster: altered, in effect at once, described, and kept over a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.end_to_end.cluster.record_sizes import is_taken, until_size
from tests.support.command_line import run_kraft
from tests.support.waiting import until

DEADLINE_S = 60.0
SETTINGS = {"log.retention.hours": "24", "default.replication.factor": "3", "min.insync.replicas": "2"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides=SETTINGS) as cluster:
        yield cluster


def segments(cluster: Cluster, topic: str) -> dict[int, list[str]]:
    """Names of the log files of partition 0 on each node that holds it."""
    found = {}
    for node in cluster.nodes:
        directories = list(cluster.directory.glob(f"node-{node.node_id}/**/{topic}-0"))
        found[node.node_id] = sorted(file.name for each in directories for file in each.glob("*.log"))
    return found


def until_every_replica_has_several_segments(cluster: Cluster, topic: str) -> None:
    until(
        lambda: all(len(names) >= 4 for names in segments(cluster, topic).values()),
        lambda: segments(cluster, topic),
        DEADLINE_S,
    )


def until_every_broker_has(cluster: Cluster, topic: str, key: str, value: str) -> None:
    """Wait until each broker describes the config so: a follower that does not know it yet rolls no segment by it."""
    for address in cluster.bootstrap_servers.split(","):
        with Admin(address) as admin:
            until(partial(has_config, admin, topic, key, value), f"the broker at {address} does not know {key}")


def has_config(admin: Admin, topic: str, key: str, value: str) -> bool:
    return admin.describe_topics([topic])[0].configs.get(key) == value


def send(cluster: Cluster, topic: str, size: int, count: int = 1) -> None:
    """One batch for each record."""
    with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(count):
            producer.send(topic, b"x" * size).result(timeout=DEADLINE_S)


def test_configs_are_altered_in_effect_at_once_described_and_kept(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=1)
    send(cluster, "orders", 3_000, count=6)
    assert all(len(names) == 1 for names in segments(cluster, "orders").values())

    changes = "max.message.bytes=2000,segment.bytes=[5000],retention.ms=100000000"
    entity = ("--entity-type", "topics", "--entity-name", "orders")
    altered = run_kraft(cluster, "configs", "alter", *entity, "--add-config", changes)
    assert (altered.returncode, altered.stdout) == (0, "Completed updating config for topic orders.\n"), altered.stderr

    until_size(cluster, "orders", 3_000, taken=False)
    until_every_broker_has(cluster, "orders", "segment.bytes", "5000")
    send(cluster, "orders", 1_500, count=12)
    until_every_replica_has_several_segments(cluster, "orders")

    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    described = run_kraft(cluster, "configs", "describe", "orders", "--all", "--output", "json")
    assert described.returncode == 0, described.stderr
    configs = {each["key"]: each for each in json.loads(described.stdout)[0]["configs"]}
    assert {key: configs[key]["value"] for key in ("max.message.bytes", "segment.bytes", "retention.ms")} == {
        "max.message.bytes": "2000",
        "segment.bytes": "5000",
        "retention.ms": "100000000",
    }
    assert configs["retention.ms"]["synonyms"] == [
        {"key": "retention.ms", "value": "100000000", "source": "DYNAMIC_TOPIC_CONFIG"},
        {"key": "log.retention.hours", "value": "24", "source": "STATIC_BROKER_CONFIG"},
        {"key": "log.retention.hours", "value": "168", "source": "DEFAULT_CONFIG"},
    ]
    assert configs["min.insync.replicas"]["source"] == "STATIC_BROKER_CONFIG"
    assert not is_taken(cluster, "orders", 3_000)

    back = run_kraft(cluster, "configs", "alter", "orders", "--delete-config", "max.message.bytes")
    assert back.returncode == 0, back.stderr
    until_size(cluster, "orders", 3_000, taken=True)
    shown = run_kraft(cluster, "configs", "describe", "--topic", "orders")
    assert shown.stdout.splitlines()[0] == "Dynamic configs for topic orders are:"
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:]] == [
        "retention.ms=100000000",
        "segment.bytes=5000",
    ]


def test_what_cannot_be_set_is_one_line(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("bills", partitions=1)
    for changes, words in (
        ("retention.ms=soon", "INVALID_CONFIG: retention.ms=soon: expected a whole number from -1"),
        ("retentions.ms=1", "INVALID_CONFIG: there is no topic config 'retentions.ms': did you mean 'retention.ms'?"),
        (
            "remote.storage.enable=true",
            "INVALID_CONFIG: topic config 'remote.storage.enable' is not supported yet: leave it out",
        ),
        ("min.insync.replicas=4", "the topic has 3 replicas"),
        ("min.compaction.lag.ms=2,max.compaction.lag.ms=1", "min.compaction.lag.ms (2) is above max.compaction.lag.ms"),
    ):
        refused = run_kraft(cluster, "configs", "alter", "bills", "--add-config", changes)
        assert refused.returncode == 1
        assert words in refused.stderr
        assert (refused.stdout, refused.stderr.count("\n")) == ("", 1)
    missing = run_kraft(cluster, "configs", "alter", "nowhere", "--add-config", "retention.ms=1")
    assert missing.stderr == "kraft: UNKNOWN_TOPIC_OR_PARTITION: there is no topic 'nowhere'\n"
    nothing = run_kraft(cluster, "configs", "describe", "bills")
    assert nothing.stdout == "Dynamic configs for topic bills are:\n"


def test_each_broker_tells_of_its_own_file(cluster: Cluster) -> None:
    for node in cluster.nodes:
        described = run_kraft(cluster, "configs", "describe", "--broker", str(node.node_id), "--all")
        lines = described.stdout.splitlines()
        assert lines[0] == f"All configs for broker {node.node_id} are:"
        assert any(line.startswith(f"  node.id={node.node_id} sensitive=false") for line in lines)
