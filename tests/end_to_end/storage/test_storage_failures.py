"""Real nodes with corrupt data and failed disks: clients do not notice that one replica is damaged."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.support.command_line import run
from tests.support.records import create_topic, once_each, publish, read_all

RECORDS = 5_000
REPAIRED_WITHIN_S = 60.0
SMALL_SEGMENTS = {"log.segment.bytes": "16384"}


def replica(cluster: Cluster, node_id: int, partition: int = 0) -> Path:
    """Return the partition's directory on that node, in any of its log directories."""
    return next(cluster.directory.glob(f"node-{node_id}*/orders-{partition}"))


def logs(cluster: Cluster, node_id: int, partition: int = 0) -> list[Path]:
    return sorted(replica(cluster, node_id, partition).glob("*.log"))


def content(cluster: Cluster, node_id: int, partition: int = 0) -> bytes:
    return b"".join(path.read_bytes().rstrip(b"\0") for path in logs(cluster, node_id, partition))


def publish_in_batches(cluster: Cluster, topic: str) -> None:
    """Publish enough batches that one in the middle is not the last, which a crash may tear."""
    for start in range(0, RECORDS, 500):
        publish(cluster.bootstrap_servers, topic, range(start, start + 500))


def _stop_or_kill(cluster: Cluster, node_id: int, how: str) -> None:
    if how == "stopped":  # A clean stop, so that the start does not recover its logs.
        cluster.node(node_id).terminate()
    else:
        cluster.node(node_id).kill()


def flip_a_bit(file: Path) -> None:
    """Flip a bit in the middle of the segment."""
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        byte = opened.read(1)[0]
        opened.seek(-1, 1)
        opened.write(bytes([byte ^ 1]))


def leader_and_isr(cluster: Cluster, partition: int = 0) -> tuple[int, list[int]]:
    with Admin(cluster.bootstrap_servers) as admin:
        (described,) = admin.describe_topics(["orders"])
    found = described.metadata.partitions[partition]
    return found.leader_id, sorted(found.isr_nodes)


def seconds_until(holds: Callable[[], bool]) -> float:
    """Wait for a condition; return how long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < REPAIRED_WITHIN_S, "not repaired in time"
        time.sleep(0.05)
    return time.monotonic() - began


def is_whole_again(cluster: Cluster, node_id: int) -> bool:
    quarantined = list(cluster.directory.glob(f"node-{node_id}*/orders-0.0-quarantine"))
    return bool(quarantined) and leader_and_isr(cluster)[1] == [1, 2, 3]


@pytest.mark.parametrize("segment", ["closed", "active"])
def test_a_bit_that_flips_in_a_leaders_log_is_noticed_by_a_reader_and_fetched_again(segment: str) -> None:
    with Cluster(nodes=3, overrides=SMALL_SEGMENTS) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS))
        leader, isr = leader_and_isr(cluster)
        assert isr == [1, 2, 3]
        found = logs(cluster, leader)
        assert len(found) >= 3
        flip_a_bit(found[1] if segment == "closed" else found[-1])
        began = time.monotonic()
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS), "from whoever has it whole"
        seconds_until(lambda: is_whole_again(cluster, leader))
        took_s = time.monotonic() - began
        print(f"a flipped bit in the {segment} segment of the leader: read elsewhere and repaired in {took_s:.1f} s")
        publish(cluster.bootstrap_servers, "orders", range(RECORDS, RECORDS + 100))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS + 100)
        assert content(cluster, leader) == content(cluster, leader % 3 + 1)
        assert all(node.is_running for node in cluster.nodes)


def test_a_bit_that_flips_while_a_node_is_down_is_noticed_when_it_opens_the_log() -> None:
    with Cluster(nodes=3) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=2)
        publish_in_batches(cluster, "orders")
        cluster.node(2).kill()
        flip_a_bit(logs(cluster, 2)[-1])
        began = time.monotonic()
        cluster.node(2).start()
        cluster.wait_ready()
        seconds_until(lambda: is_whole_again(cluster, 2))
        took_s = time.monotonic() - began
        print(f"a flipped bit in the log of a node that was down: repaired {took_s:.1f} s after its start")
        # The other partition, whose log was whole, may join its ISR after the damaged one.
        seconds_until(lambda: leader_and_isr(cluster, partition=1)[1] == [1, 2, 3])
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS)
        for partition in (0, 1):
            assert content(cluster, 2, partition) == content(cluster, 1, partition) != b""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_first_segment_that_is_gone_is_missed_and_the_good_copies_stay(how: str) -> None:
    with Cluster(nodes=3, overrides=SMALL_SEGMENTS) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1)
        publish_in_batches(cluster, "orders")
        leader, _ = leader_and_isr(cluster)
        _stop_or_kill(cluster, leader, how)
        first = logs(cluster, leader)[0]
        assert int(first.stem) == 0
        for path in first.parent.glob(f"{first.stem}.*"):
            path.unlink()
        cluster.node(leader).start()
        cluster.wait_ready()
        took_s = seconds_until(lambda: is_whole_again(cluster, leader))
        print(f"the first segment of the leader removed while it was {how}: repaired {took_s:.1f} s after it was ready")
        assert [int(logs(cluster, node_id)[0].stem) for node_id in (1, 2, 3)] == [0, 0, 0], "the log start stays"
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS)
        assert content(cluster, 1) == content(cluster, 2) == content(cluster, 3) != b""


def test_the_only_replica_without_its_first_segment_stays_offline() -> None:
    with Cluster(nodes=1, overrides=SMALL_SEGMENTS) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        publish_in_batches(cluster, "orders")
        cluster.node(1).terminate()
        first = logs(cluster, 1)[0]
        aside = first.rename(cluster.directory / "first.log")
        cluster.node(1).start()
        seconds_until(lambda: "its first segment is missing" in cluster.node(1).log_path.read_text())
        # The controller is told of it a moment later.
        seconds_until(lambda: leader_and_isr(cluster) == (-1, [1]))
        cluster.node(1).terminate()
        aside.rename(first)
        for mark in replica(cluster, 1).glob("corrupt-replica"):
            mark.unlink()
        cluster.node(1).start()
        cluster.wait_ready()
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(RECORDS)


def test_the_only_replica_is_not_cut_off_where_it_is_damaged_and_the_other_partitions_are_served() -> None:
    with Cluster(nodes=1) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        create_topic(cluster.bootstrap_servers, "others", partitions=1, replication_factor=1)
        for topic in ("orders", "others"):
            publish_in_batches(cluster, topic)
        cluster.node(1).kill()
        damaged = logs(cluster, 1)[-1]
        flip_a_bit(damaged)
        before = damaged.read_bytes()
        for _ in range(2):
            cluster.node(1).start()
            cluster.wait_ready()
            seconds_until(lambda: leader_and_isr(cluster) == (-1, [1]))
            assert read_all(cluster.bootstrap_servers, "others") == once_each(RECORDS)
            seconds_until(lambda: "last in-sync replica" in cluster.node(1).log_path.read_text())
            cluster.node(1).terminate()
            assert damaged.read_bytes() == before
        cluster.node(1).start()
        cluster.wait_ready()


def test_a_damaged_end_that_looks_torn_is_missed_when_it_was_committed() -> None:
    with Cluster(nodes=1, overrides={"replica.high.watermark.checkpoint.interval.ms": "100"}) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        publish(cluster.bootstrap_servers, "orders", range(100))
        checkpoint = cluster.directory / "node-1" / "replication-offset-checkpoint"
        seconds_until(lambda: "orders 0 100\n" in checkpoint.read_text())
        cluster.node(1).kill()
        (log,) = logs(cluster, 1)
        with log.open("r+b") as opened:
            opened.truncate(len(content(cluster, 1)) - 1)
        cluster.node(1).start()
        cluster.wait_ready()
        seconds_until(lambda: leader_and_isr(cluster) == (-1, [1]))
        assert "was committed up to 100" in cluster.node(1).log_path.read_text()


@pytest.mark.slow
def test_a_node_of_several_log_directories_goes_on_without_one_and_takes_it_up_again(tmp_path: Path) -> None:
    names = [str(tmp_path / "cluster" / f"node-1-{name}") for name in ("a", "b")]
    with Cluster(nodes=3, directory=tmp_path / "cluster", node_overrides={1: {"log.dirs": ",".join(names)}}) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=4)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS))
        held = [sorted(path.name for path in Path(name).glob("orders-*")) for name in names]
        assert sorted(map(len, held)) == [2, 2]
        cluster.node(1).terminate()

        # As when the disk is not mounted: an empty directory is in its place.
        second, aside = Path(names[1]), tmp_path / "aside"
        shutil.move(second, aside)
        cluster.node(1).start()
        cluster.wait_ready()
        missing = [int(name.removeprefix("orders-")) for name in held[1]]
        there = [int(name.removeprefix("orders-")) for name in held[0]]
        seconds_until(lambda: all(leader_and_isr(cluster, number)[1] == [1, 2, 3] for number in there))
        assert all(leader_and_isr(cluster, number)[1] == [2, 3] for number in missing)
        assert "log directory unusable" in cluster.node(1).log_path.read_text()
        assert list(second.glob("orders-*")) == [], "nothing is begun anew"
        publish(cluster.bootstrap_servers, "orders", range(RECORDS, 2 * RECORDS))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(2 * RECORDS)
        cluster.node(1).terminate()

        shutil.rmtree(second)
        shutil.move(aside, second)
        cluster.node(1).start()
        cluster.wait_ready()
        seconds_until(lambda: all(leader_and_isr(cluster, number)[1] == [1, 2, 3] for number in range(4)))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(2 * RECORDS)
        for number in range(4):
            assert content(cluster, 1, number) == content(cluster, 2, number) != b""


def test_a_log_directory_that_fails_under_a_running_node_costs_it_only_what_is_in_there(tmp_path: Path) -> None:
    names = [str(tmp_path / "cluster" / f"node-1-{name}") for name in ("a", "b")]
    checkpoints = {"replica.high.watermark.checkpoint.interval.ms": "100"}
    with Cluster(
        nodes=3,
        directory=tmp_path / "cluster",
        overrides=checkpoints,
        node_overrides={1: {"log.dirs": ",".join(names)}},
    ) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=4)
        publish(cluster.bootstrap_servers, "orders", range(RECORDS))
        lost = {int(path.name.removeprefix("orders-")) for path in Path(names[1]).glob("orders-*")}
        assert len(lost) == 2
        while Path(names[1]).exists():
            # The node may write a checkpoint there at the same time.
            shutil.rmtree(names[1], ignore_errors=True)
        began = time.monotonic()
        seconds_until(lambda: all(leader_and_isr(cluster, number)[1] == [2, 3] for number in lost))
        print(f"the others took over in {time.monotonic() - began:.1f} s")
        for number in set(range(4)) - lost:
            assert leader_and_isr(cluster, number)[1] == [1, 2, 3]
        publish(cluster.bootstrap_servers, "orders", range(RECORDS, 2 * RECORDS))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(2 * RECORDS)
        assert not Path(names[1]).exists(), "nothing is tried again there"
        leader = cluster.node(leader_and_isr(cluster, min(lost))[0])
        seconds_until(lambda: "follower stopped storing records" in leader.log_path.read_text())
        (line,) = [
            each for each in leader.log_path.read_text().splitlines() if "follower stopped storing records" in each
        ]
        print(line)
        assert (json.loads(line)["broker"], json.loads(line)["directory"]) == (1, names[1])
        cluster.node(1).terminate()

        # A new disk, formatted for this node: its replicas are copied again.
        formatted = run("storage", "format", "-c", cluster.node(1).config_path)
        assert formatted.returncode == 0, formatted.stderr
        assert f"{names[1]}: formatted" in formatted.stdout
        cluster.node(1).start()
        cluster.wait_ready()
        seconds_until(lambda: all(leader_and_isr(cluster, number)[1] == [1, 2, 3] for number in range(4)))
        # The leader looks once a second: it may find the broker stopped, or back already.
        over = re.compile("follower (left service|resumed storing records)")
        seconds_until(lambda: over.search(leader.log_path.read_text()) is not None)
        for number in range(4):
            assert content(cluster, 1, number) == content(cluster, 2, number) != b""


def test_the_last_in_sync_replica_does_not_lead_from_an_emptied_disk() -> None:
    with Cluster(nodes=1) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        publish(cluster.bootstrap_servers, "orders", range(100))
        cluster.node(1).terminate()
        shutil.move(replica(cluster, 1), cluster.directory / "backup")
        cluster.node(1).start()
        cluster.wait_ready()
        seconds_until(lambda: leader_and_isr(cluster) == (-1, [1]))
        cluster.node(1).terminate()
        shutil.move(cluster.directory / "backup", cluster.directory / "node-1" / "orders-0")
        cluster.node(1).start()
        cluster.wait_ready()
        seconds_until(lambda: leader_and_isr(cluster) == (1, [1]))
        assert read_all(cluster.bootstrap_servers, "orders") == once_each(100)
