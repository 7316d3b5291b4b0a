"""Four brokers in three racks: replicas of a partition are always spread over as many racks as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.support.command_line import kraft, run_kraft
from tests.support.waiting import until

RACKS = {1: "a", 2: "a", 3: "b", 4: "c"}
UNEVEN = "racks have unequal numbers of brokers (a: 2, b: 1, c: 1), so topics with several replicas"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    own = {node_id: {"broker.rack": rack} for node_id, rack in RACKS.items()}
    with Cluster(nodes=4, node_overrides=own) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            until(lambda: all(not each.fenced for each in admin.describe_brokers()), "a broker is not in service")
        yield cluster


@pytest.fixture(name="admin")
def _admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as admin:
        yield admin


def in_racks(replicas: list[int]) -> Counter[str]:
    """Return the number of replicas in each rack."""
    return Counter(RACKS[broker_id] for broker_id in replicas)


def placed(admin: Admin, topic: str) -> list[list[int]]:
    (described,) = admin.describe_topics([topic])
    return [[*each.replica_nodes] for each in described.metadata.partitions]


def test_brokers_say_in_which_rack_they_stand(admin: Admin) -> None:
    assert {each.broker_id: each.rack for each in admin.describe_brokers()} == RACKS


def test_no_rack_has_two_replicas_of_a_partition_until_each_has_one(cluster: Cluster, admin: Admin) -> None:
    one_each = {"a": 1, "b": 1, "c": 1}
    admin.create_topic("spread", partitions=12, replication_factor=3)
    assert [in_racks(replicas) for replicas in placed(admin, "spread")] == [one_each] * 12
    # Every broker leads equally many, though one rack has two brokers.
    assert Counter(replicas[0] for replicas in placed(admin, "spread")) == dict.fromkeys(RACKS, 3)

    admin.create_partitions("spread", 17)
    assert [in_racks(replicas) for replicas in placed(admin, "spread")] == [one_each] * 17

    admin.create_topic("pairs", partitions=8, replication_factor=2)
    assert all(max(in_racks(replicas).values()) == 1 for replicas in placed(admin, "pairs"))
    admin.create_topic("everywhere", partitions=4, replication_factor=4)
    assert [in_racks(replicas) for replicas in placed(admin, "everywhere")] == [{"a": 2, "b": 1, "c": 1}] * 4
    admin.delete_topics(["everywhere"])


def test_racks_of_unequal_size_give_unequal_loads_and_whoever_creates_a_topic_is_told(
    cluster: Cluster, admin: Admin
) -> None:
    shape = ("--partitions", "12", "--replication-factor")
    assert run_kraft(cluster, "topics", "create", "loaded", *shape, "3").stderr.startswith(UNEVEN)
    held = Counter(broker_id for replicas in placed(admin, "loaded") for broker_id in replicas)
    assert held[1] + held[2] == held[3] == held[4] == 12
    assert run_kraft(cluster, "topics", "create", "alone", *shape, "1").stderr == ""
    assert Counter(replicas[0] for replicas in placed(admin, "alone")) == dict.fromkeys(RACKS, 3)


def test_a_plan_and_a_broker_that_is_emptied_keep_to_the_racks(cluster: Cluster, admin: Admin, tmp_path: Path) -> None:
    # Where they are now, rack a has two replicas of each.
    admin.create_topic("crowded", partitions=1, replication_factor=3)
    admin.create_partitions("crowded", 4, [[1, 2, 3], [2, 1, 4], [1, 2, 4]])
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "crowded"}]}')
    reassign = ("topics", "reassign")
    generate = (*reassign, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list")
    assert run_kraft(cluster, *generate, "2,3,4").stderr == ""
    generated = run_kraft(cluster, *generate, "1,2,3,4")
    assert generated.stderr.startswith(UNEVEN)
    plan.write_text(generated.stdout.splitlines()[-1])
    kraft(cluster, *reassign, "--execute", "--reassignment-json-file", str(plan))
    until(lambda: admin.list_partition_reassignments() == {}, admin.list_partition_reassignments)
    assert [in_racks(replicas) for replicas in placed(admin, "crowded")] == [{"a": 1, "b": 1, "c": 1}] * 4

    # Broker 2 has the fewest replicas, but may not get those that have a replica in its own rack.
    admin.create_topic("two", partitions=1, replication_factor=2)
    admin.create_partitions("two", 4, [[3, 1], [1, 3], [3, 1]])
    kraft(cluster, "brokers", "decommission", "3")
    (emptied,) = admin.describe_brokers([3])
    assert emptied.replicas == 0
    assert all(max(in_racks(replicas).values()) == 1 for replicas in placed(admin, "two"))
