"""Snapshots of the metadata on a running cluster: written, loaded after any stop, and sent to voters that lag."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.client import Admin, Producer
from kraft.testing import Cluster
from tests.support.waiting import until

DEADLINE_S = 30.0
ROLES = ["broker,controller", "broker", "controller"]
PLACES = [(1, "broker"), (1, "controller"), (2, "broker"), (3, "controller")]
LOADED, RECEIVED = "metadata snapshot loaded", "metadata snapshot received"


def start_cluster(directory: Path, **settings: str) -> Cluster:
    overrides = {name.replace("_", "."): value for name, value in settings.items()}
    return Cluster(nodes=3, overrides=overrides, roles=ROLES, directory=directory)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Write a snapshot at most a second after a change."""
    with start_cluster(tmp_path, metadata_log_max_record_bytes_between_snapshots="1") as cluster:
        yield cluster


def snapshots(cluster: Cluster, node_id: int, role: str) -> list[Path]:
    directory = cluster.directory / f"node-{node_id}" / "__cluster_metadata" / role
    return sorted(directory.glob("*.checkpoint"))


def create_and_wait_for_snapshots(cluster: Cluster, topic: str) -> None:
    """Wait until every node has a newer snapshot."""
    earlier = {place: snapshots(cluster, *place)[-1:] for place in PLACES}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=4, replication_factor=2)

    def are_new() -> bool:
        return all(snapshots(cluster, *place)[-1:] > earlier[place] for place in PLACES)

    until(are_new, f"no new snapshots beside {earlier}")


def topics(cluster: Cluster) -> list[str]:
    with Admin(cluster.bootstrap_servers) as admin:
        return sorted(admin.list_topics())


def log_of(cluster: Cluster, node_id: int) -> str:
    return (cluster.directory / f"node-{node_id}.log").read_text()


def forget_logs(cluster: Cluster) -> None:
    """Empty the nodes' logs, so that they have only later lines."""
    for node in cluster.nodes:
        (cluster.directory / f"node-{node.node_id}.log").write_text("")


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def start_again(cluster: Cluster) -> None:
    cluster.start()
    cluster.wait_ready()


def test_killed_nodes_start_from_their_snapshots_of_which_two_are_kept(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        create_and_wait_for_snapshots(cluster, name)
    # The third is there before the first one goes.
    until(lambda: all(len(snapshots(cluster, *place)) == 2 for place in PLACES), "more snapshots than two are kept")
    cluster.kill()
    forget_logs(cluster)
    start_again(cluster)
    assert [log_of(cluster, node_id).count(LOADED) for node_id in (1, 2, 3)] == [2, 1, 1]
    assert topics(cluster) == ["a", "b", "c"]
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send("c", b"x").result(timeout=DEADLINE_S)


def test_a_broker_without_snapshot_is_sent_one_by_controllers_that_no_longer_keep_all_entries(cluster: Cluster) -> None:
    create_and_wait_for_snapshots(cluster, "a")
    cluster.kill()
    shutil.rmtree(cluster.directory / "node-2" / "__cluster_metadata")
    forget_logs(cluster)
    start_again(cluster)
    assert (LOADED in log_of(cluster, 2), RECEIVED in log_of(cluster, 2)) == (False, True)
    assert topics(cluster) == ["a"]


def test_a_damaged_snapshot_is_passed_over_and_a_voter_without_a_whole_one_does_not_start(cluster: Cluster) -> None:
    create_and_wait_for_snapshots(cluster, "a")
    create_and_wait_for_snapshots(cluster, "b")
    cluster.kill()
    forget_logs(cluster)
    for place in PLACES:
        damage(snapshots(cluster, *place)[-1])
    start_again(cluster)
    assert topics(cluster) == ["a", "b"]
    for node_id in (1, 2, 3):
        assert "snapshot corrupt, previous snapshot used" in log_of(cluster, node_id)
    cluster.kill()
    forget_logs(cluster)
    for file in snapshots(cluster, 3, "controller"):
        damage(file)
    voter = cluster.node(3)
    voter.start()
    until(lambda: not voter.is_running, "the voter runs on a damaged snapshot")
    (line,) = [line for line in log_of(cluster, 3).splitlines() if line.startswith("kraft: ")]
    assert "metadata snapshots are corrupt: " in line
    assert f"{snapshots(cluster, 3, 'controller')[-1]} at byte " in line


def test_a_graceful_stop_leaves_a_snapshot(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path)
    with cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("a", partitions=1, replication_factor=1)
        assert not any(snapshots(cluster, *place) for place in PLACES), "nothing was due yet"
    assert all(len(snapshots(cluster, *place)) == 1 for place in PLACES)


@pytest.mark.slow
def test_a_voter_that_was_away_while_the_others_trimmed_their_journals_is_sent_a_snapshot(tmp_path: Path) -> None:
    often = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    with Cluster(nodes=3, overrides=often, directory=tmp_path) as cluster:
        cluster.node(3).kill()
        with Admin(cluster.bootstrap_servers) as admin:
            for number in range(3):
                earlier = snapshots(cluster, 1, "controller"), snapshots(cluster, 2, "controller")
                admin.create_topic(f"t{number}", partitions=1, replication_factor=2)

                def are_new(earlier: tuple[list[Path], list[Path]] = earlier) -> bool:
                    return all(
                        snapshots(cluster, node_id, "controller")[-1:] > found[-1:]
                        for node_id, found in enumerate(earlier, start=1)
                    )

                until(are_new, f"no new snapshots beside {earlier}")
        assert "snapshot installed" not in log_of(cluster, 3)
        cluster.node(3).start()
        cluster.wait_ready()
        until(lambda: "snapshot installed" in log_of(cluster, 3), "node 3 was sent no snapshot")
        # Without the first one, nothing is committed without node 3.
        cluster.node(1).kill()
        with Admin(cluster.bootstrap_servers, default_api_timeout_ms=30_000) as admin:
            admin.create_topic("last", partitions=1, replication_factor=1)
            assert sorted(admin.list_topics()) == ["last", "t0", "t1", "t2"]
        cluster.node(1).start()
        cluster.wait_ready()
