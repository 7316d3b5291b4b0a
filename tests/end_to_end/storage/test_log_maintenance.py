"""Real nodes over time: retention, deletion and compaction on every replica, and full disks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kraft.client import Admin, Consumer, Producer, TopicPartition
from kraft.log.format.record_batch import iter_records
from kraft.testing import Cluster
from tests.support.command_line import run_kraft, running
from tests.support.log.segment_files import read_segments
from tests.support.records import bounds

DEADLINE_S = 60.0
NODES = (1, 2, 3)
MIB = 1 << 20
OFTEN = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.scrub.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides=OFTEN) as running:
        yield running


def create(cluster: Cluster, topic: str, **configs: str) -> TopicPartition:
    """Create a topic with one partition on all nodes; names of configs have "_" for "."."""
    named = {key.replace("_", "."): value for key, value in configs.items()}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, 3, {"min.insync.replicas": "2", "file.delete.delay.ms": "0", **named})
    return TopicPartition(topic, 0)


def publish(cluster: Cluster, topic: str, pairs: list[tuple[bytes, bytes]], batches: int = 1) -> None:
    """Publish records; on return every in-sync replica has them on disk."""
    with Producer(cluster.bootstrap_servers, acks="all") as producer:
        size = -(-len(pairs) // batches)
        for start in range(0, len(pairs), size):
            part = pairs[start : start + size]
            keys, values = [key for key, _ in part], [value for _, value in part]
            producer.produce_many(topic, values, keys).result(DEADLINE_S)


def numbered(count: int, value_bytes: int = 100) -> list[tuple[bytes, bytes]]:
    return [(b"%d" % number, (b"%d " % number).ljust(value_bytes, b".")) for number in range(count)]


def read(cluster: Cluster, place: TopicPartition) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of every record in the topic."""
    with Consumer(cluster.bootstrap_servers) as consumer:
        begin, end = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        return [
            record
            for part in consumer.read_columns(place, begin, end, timeout_ms=20_000)
            for record in zip(part.columns.offsets, part.columns.keys, part.columns.values, strict=True)
        ]


def leader(cluster: Cluster, topic: str) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        return admin.describe_topics([topic])[0].metadata.partitions[0].leader_id


def isr(cluster: Cluster, topic: str) -> set[int]:
    with Admin(cluster.bootstrap_servers) as admin:
        return set(admin.describe_topics([topic])[0].metadata.partitions[0].isr_nodes)


def log_files(cluster: Cluster, node_id: int, place: TopicPartition) -> dict[int, int]:
    """Return the sizes of one replica's segments by base offset."""
    directory = cluster.directory / f"node-{node_id}" / str(place)
    sizes = {}
    for path in directory.glob("*.log"):
        # The node may remove it meanwhile.
        with suppress(FileNotFoundError):
            sizes[int(path.stem)] = path.stat().st_size
    return sizes


def log_bytes(cluster: Cluster, node_id: int, place: TopicPartition) -> int:
    return sum(log_files(cluster, node_id, place).values())


def records_on_disk(
    cluster: Cluster, node_id: int, place: TopicPartition
) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of every record in the files of one replica."""
    directory = cluster.directory / f"node-{node_id}" / str(place)
    data = b"".join(read_segments(directory))
    return [(record.offset, record.key, record.value) for record in iter_records(data)]


def said(cluster: Cluster, node_id: int) -> str:
    return (cluster.directory / f"node-{node_id}.log").read_text()


def until(holds: Callable[[], bool], what: str) -> float:
    """Wait for a condition; return how long it took."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() - began_s < DEADLINE_S, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began_s


def until_each(holds: Callable[[int], bool], what: str) -> None:
    """Wait until a condition holds for every node."""
    for node_id in NODES:
        until(lambda: holds(node_id), f"{what} on node {node_id}")  # noqa: B023  Called in this very round.


def move_leader(cluster: Cluster, topic: str) -> None:
    """The node that leads is stopped and started; all replicas are in sync before and afterwards."""
    stopped = leader(cluster, topic)
    cluster.node(stopped).terminate()
    until(lambda: leader(cluster, topic) not in (stopped, -1), "another one leads")
    cluster.node(stopped).start()
    cluster.wait_ready()
    until(lambda: isr(cluster, topic) == set(NODES), "all replicas are in sync again")


# --- retention -----------------------------------------------------------------------------------------------


def test_records_expire_by_age_on_every_replica_after_a_config_change(cluster: Cluster) -> None:
    place = create(cluster, "aged", segment_bytes="20000")
    publish(cluster, "aged", numbered(1_000), batches=20)
    assert all(len(log_files(cluster, node_id, place)) > 3 for node_id in NODES)
    # Several checks of retention pass, and every record becomes older than the retention time that is set next.
    time.sleep(1)
    assert bounds(cluster.bootstrap_servers, place) == (0, 1_000)
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter_topic_configs("aged", {"retention.ms": "500"})
    until(lambda: bounds(cluster.bootstrap_servers, place) == (1_000, 1_000), "all records expire")
    until_each(lambda node_id: log_files(cluster, node_id, place) == {1_000: 0}, "their files go")
    with Consumer(cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        consumer.seek(place, 10)
        with Admin(cluster.bootstrap_servers) as admin:
            admin.alter_topic_configs("aged", delete=["retention.ms"])
        publish(cluster, "aged", [(b"k", b"after")])
        # A position below the log start is reset to the earliest record.
        assert [(each.offset, each.value) for each in consumer.poll(20_000)] == [(1_000, b"after")]


def test_records_expire_by_size_on_every_replica_after_a_config_change(cluster: Cluster) -> None:
    place = create(cluster, "sized", segment_bytes="20000")
    publish(cluster, "sized", numbered(1_000), batches=20)
    assert bounds(cluster.bootstrap_servers, place) == (0, 1_000)
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter_topic_configs("sized", {"retention.bytes": "50000"})
    until_each(lambda node_id: log_bytes(cluster, node_id, place) < 70_000, "the log shrinks")
    assert all(log_bytes(cluster, node_id, place) >= 50_000 for node_id in NODES)
    begin, end = bounds(cluster.bootstrap_servers, place)
    assert 0 < begin < end == 1_000
    assert [offset for offset, _, _ in read(cluster, place)] == list(range(begin, end))


# --- deleted records -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_deleted_records_stay_deleted_on_every_replica_and_through_every_restart(cluster: Cluster) -> None:
    place = create(cluster, "deleted", segment_bytes="20000")
    publish(cluster, "deleted", numbered(1_000), batches=20)
    done = run_kraft(cluster, "topics", "delete-records", "deleted", "--partition", "0", "--before-offset", "777")
    assert (done.returncode, done.stdout) == (0, "partition: deleted-0\tlow_watermark: 777\n"), done.stderr
    assert bounds(cluster.bootstrap_servers, place) == (777, 1_000)
    until_each(lambda node_id: min(log_files(cluster, node_id, place)) > 600, "their segments go")
    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    until(lambda: isr(cluster, "deleted") == set(NODES), "all replicas are in sync again")
    for leader_number in NODES:
        if leader_number > 1:
            move_leader(cluster, "deleted")
        assert bounds(cluster.bootstrap_servers, place) == (777, 1_000)
        assert [offset for offset, _, _ in read(cluster, place)] == list(range(777, 1_000))


def test_everything_committed_is_deleted_and_the_log_goes_on_from_there(cluster: Cluster, tmp_path: Path) -> None:
    place = create(cluster, "emptied")
    publish(cluster, "emptied", numbered(10))
    path = tmp_path / "offsets.json"
    path.write_text('{"version": 1, "partitions": [{"topic": "emptied", "partition": 0, "offset": -1}]}')
    done = run_kraft(cluster, "topics", "delete-records", "--offset-json-file", str(path))
    assert (done.returncode, done.stdout) == (0, "partition: emptied-0\tlow_watermark: 10\n"), done.stderr
    assert bounds(cluster.bootstrap_servers, place) == (10, 10)
    publish(cluster, "emptied", [(b"k", b"next")])
    assert read(cluster, place) == [(10, b"k", b"next")]


def test_what_cannot_be_deleted_is_refused_in_one_line(cluster: Cluster) -> None:
    place = create(cluster, "refusing")
    create(cluster, "only-compacted", cleanup_policy="compact")
    publish(cluster, "refusing", numbered(10))
    for arguments, word in (
        (("refusing", "--partition", "0", "--before-offset", "11"), "OFFSET_OUT_OF_RANGE: "),
        (("refusing", "--partition", "1", "--before-offset", "0"), "has partitions 0 to 0, not 1"),
        (("only-compacted", "--partition", "0", "--before-offset", "0"), "POLICY_VIOLATION: "),
    ):
        done = run_kraft(cluster, "topics", "delete-records", *arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert word in done.stderr
    assert bounds(cluster.bootstrap_servers, place) == (0, 10)


# --- compaction ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_compacted_topic_keeps_the_newest_of_each_key_on_every_replica(cluster: Cluster) -> None:
    place = create(cluster, "newest", cleanup_policy="compact", segment_bytes="20000", min_cleanable_dirty_ratio="0.1")
    keys = [b"key-%d" % number for number in range(100)]
    for round_number in range(20):
        publish(cluster, "newest", [(key, b"%d" % round_number * 50) for key in keys], batches=4)
    written = [log_bytes(cluster, node_id, place) for node_id in NODES]
    # The active segment is never compacted; the rest has at most one record per key.
    until_each(lambda node_id: log_bytes(cluster, node_id, place) < 45_000, "the log shrinks")
    print(f"bytes of the three replicas before: at least {written}, after: ", end="")
    print([log_bytes(cluster, node_id, place) for node_id in NODES])
    for leader_number in NODES:
        if leader_number > 1:
            move_leader(cluster, "newest")
        newest = {key: value for _, key, value in read(cluster, place)}
        assert newest == dict.fromkeys(keys, b"19" * 50)
    publish(cluster, "newest", [(keys[0], b"at last")])
    assert {key: value for _, key, value in read(cluster, place)}[keys[0]] == b"at last"


def test_a_compacted_topic_is_compacted_soon_after_the_append_that_finds_it_waiting_too_long() -> None:
    # The interval of retention, which closes segments too, has its default: 5 minutes.
    with Cluster(1, overrides={"log.cleaner.backoff.ms": "200"}) as cluster:
        place = TopicPartition("waiting", 0)
        configs = {"cleanup.policy": "compact", "segment.bytes": str(4 * MIB), "max.compaction.lag.ms": "1000"}
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("waiting", 1, 1, configs)
        publish(cluster, "waiting", [(b"key", b"%d" % number) for number in range(100)], batches=10)
        # By the records' own timestamps the lag has to be over when the next one comes.
        time.sleep(1.2)
        publish(cluster, "waiting", [(b"other", b"next")])
        appended_s = time.monotonic()
        until(lambda: len(read(cluster, place)) == 2, "the log is compacted")
        print(f"compacted {time.monotonic() - appended_s:.1f} s after the append")
        assert [(key, value) for _, key, value in read(cluster, place)] == [(b"key", b"99"), (b"other", b"next")]


def test_a_new_replica_of_a_compacted_topic_copies_its_holes(cluster: Cluster) -> None:
    place = create(cluster, "copied", cleanup_policy="compact", segment_bytes="10000", min_cleanable_dirty_ratio="0.1")
    for round_number in range(10):
        publish(cluster, "copied", [(b"key-%d" % number, b"%d" % round_number * 50) for number in range(50)])
    until_each(lambda node_id: log_bytes(cluster, node_id, place) < 25_000, "the log shrinks")
    written = read(cluster, place)
    behind = next(node_id for node_id in NODES if node_id != leader(cluster, "copied"))
    cluster.node(behind).terminate()
    directory = cluster.directory / f"node-{behind}" / str(place)
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    cluster.node(behind).start()
    cluster.wait_ready()
    until(lambda: isr(cluster, "copied") == set(NODES), "the emptied replica is in sync again")
    newest = {b"key-%d" % number: b"9" * 50 for number in range(50)}

    def is_a_copy() -> bool:
        copied = records_on_disk(cluster, behind, place)
        is_from_there = set(copied) <= set(written) and len(copied) < 500
        return is_from_there and {key: value for _, key, value in copied} == newest

    until(is_a_copy, "the replica holds what the leader had, less what compaction took")


# --- corruption ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["leader", "follower"])
def test_corruption_that_nobody_reads_is_found_and_the_replica_copied_again(cluster: Cluster, whose: str) -> None:
    topic = f"rotting-{whose}"
    place = create(cluster, topic, segment_bytes="20000")
    publish(cluster, topic, numbered(1_000), batches=20)
    until(lambda: isr(cluster, topic) == set(NODES), "all replicas are in sync")
    led_by = leader(cluster, topic)
    corrupt = led_by if whose == "leader" else next(node_id for node_id in NODES if node_id != led_by)
    path = (
        cluster.directory / f"node-{corrupt}" / str(place) / f"{sorted(log_files(cluster, corrupt, place))[2]:020}.log"
    )
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    took_s = until(lambda: f'"{place}", "damage": "corrupt"' in said(cluster, corrupt), "the corruption is found")
    healed_s = until(lambda: isr(cluster, topic) == set(NODES) and sound(cluster, corrupt, place), "it is copied again")
    print(f"corruption found after {took_s:.1f} s, whole again {healed_s:.1f} s later")
    assert [offset for offset, _, _ in read(cluster, place)] == list(range(1_000))


def sound(cluster: Cluster, node_id: int, place: TopicPartition) -> bool:
    """Return whether the node's replica equals its leader's, byte for byte."""
    directories = [cluster.directory / f"node-{each}" / str(place) for each in (node_id, leader(cluster, place.topic))]
    try:
        own, leaders = (b"".join(path.read_bytes() for path in sorted(one.glob("*.log"))) for one in directories)
    except FileNotFoundError:
        # The corrupt replica is quarantined at this moment.
        return False
    return own == leaders and bool(own)


# --- a full disk ---------------------------------------------------------------------------------------------


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[Path]:
    """Mount a file system in memory; skip the test if that is not possible."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], timeout=10, check=True)


FULL = "disk full, appends refused"


def fill(directory: Path, leave_bytes: int) -> Path:
    """Create a file that leaves that much space on its file system."""
    path = directory / "somebody-elses"
    state = os.statvfs(directory)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - leave_bytes)
    return path


@pytest.mark.slow
def test_producers_are_refused_on_a_full_disk_while_reads_go_on_and_taken_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 64 * MIB) as disk:
        overrides = {"log.dirs": str(disk / "node-1"), "log.free.space.min.bytes": str(16 * MIB)}
        with Cluster(1, tmp_path / "cluster", overrides=overrides) as cluster:
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic("orders", 1, 1)
            place = TopicPartition("orders", 0)
            publish(cluster, "orders", numbered(1_000))
            filler = fill(disk, 12 * MIB)
            until(lambda: FULL in said(cluster, 1), "it notices")
            with Producer(cluster.bootstrap_servers, delivery_timeout_ms=2_000, request_timeout_ms=1_000) as hurried:
                refused = hurried.send("orders", b"refused")
                error = refused.exception(timeout=DEADLINE_S)
            assert "log.free.space.min.bytes" in str(error)
            assert len(read(cluster, place)) == 1_000
            with Producer(cluster.bootstrap_servers) as patient:
                kept = patient.send("orders", b"kept")
                # Long enough for the producer to be refused and to retry.
                time.sleep(1)
                assert not kept.done()
                filler.unlink()
                took_s = until(kept.done, "the producer is served again")
                assert kept.result(1).offset == 1_000
            print(f"served again {took_s:.1f} s after there was room")
            assert len(read(cluster, place)) == 1_001
            assert said(cluster, 1).count(FULL) == 1
            assert said(cluster, 1).count("disk space recovered") == 1


@contextmanager
def follower_on_a_small_disk(
    tmp_path: Path, lag_time_max_ms: int, min_insync_replicas: int = 2
) -> Iterator[tuple[Cluster, Path]]:
    """Start three nodes that hold the topic 'orders', which node 3 follows on a disk of its own."""
    with small_disk(tmp_path / "disk", 64 * MIB) as disk:
        log_dirs = {3: {"log.dirs": str(disk / "node-3"), "log.free.space.min.bytes": str(16 * MIB)}}
        overrides = {"replica.lag.time.max.ms": str(lag_time_max_ms)}
        with Cluster(3, tmp_path / "cluster", overrides=overrides, node_overrides=log_dirs) as cluster:
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic("orders", 1, 3, {"min.insync.replicas": str(min_insync_replicas)})
            if leader(cluster, "orders") == 3:
                cluster.node(3).terminate()
                cluster.node(3).start()
                cluster.wait_ready()
            publish(cluster, "orders", numbered(100))
            until(lambda: isr(cluster, "orders") == set(NODES), "all replicas are in sync")
            yield cluster, disk


@pytest.mark.slow
def test_a_follower_on_a_full_disk_leaves_the_isr_and_comes_back_when_there_is_room(tmp_path: Path) -> None:
    # Long before the time for which followers may lag.
    with follower_on_a_small_disk(tmp_path, 120_000) as (cluster, disk):
        filler = fill(disk, 12 * MIB)
        until(lambda: FULL in said(cluster, 3), "it notices")
        publish(cluster, "orders", numbered(100))
        until(lambda: isr(cluster, "orders") == {1, 2}, "the follower leaves the ISR")
        led_by = leader(cluster, "orders")
        until(lambda: "follower stopped storing records" in said(cluster, led_by), "the leader's log says so")
        publish(cluster, "orders", numbered(100))
        # Long enough for the leader to ask the follower's broker again.
        time.sleep(3)
        filler.unlink()
        took_s = until(lambda: isr(cluster, "orders") == set(NODES), "it is in sync again")
        print(f"in sync again {took_s:.1f} s after there was room")
        assert cluster.node(3).is_running
        assert len(read(cluster, TopicPartition("orders", 0))) == 300
        until(
            lambda: "follower resumed storing records" in said(cluster, led_by), "the leader's log says that it is over"
        )
        (line,) = [each for each in said(cluster, led_by).splitlines() if "follower stopped storing records" in each]
        event = json.loads(line)
        assert (event["broker"], event["directory"]) == (3, str(disk / "node-3"))
        assert "log.free.space.min.bytes" in event["reason"]
        assert event["partition"] == "orders-0"
        assert event["lagging_since"] < event["timestamp"]
        assert said(cluster, led_by).count("follower resumed storing records") == 1


@pytest.mark.slow
def test_producers_and_the_command_name_the_follower_on_a_full_disk_that_they_wait_for(tmp_path: Path) -> None:
    # With fewer in sync acks=all would be refused, so this follower is waited for.
    with follower_on_a_small_disk(tmp_path, 120_000, min_insync_replicas=3) as (cluster, disk):
        filler = fill(disk, 12 * MIB)
        until(lambda: FULL in said(cluster, 3), "it notices")
        servers = cluster.bootstrap_servers
        with (
            Producer(servers) as patient,
            Producer(servers, request_timeout_ms=10_000, delivery_timeout_ms=12_000) as hurried,
            running("kraft", "produce", "orders", "--bootstrap-server", servers) as command,
        ):
            kept, lost = patient.send("orders", b"waits"), hurried.send("orders", b"waits in vain")
            command.stdin.write(b"waits, too\n")
            command.stdin.close()
            took_s = until(lambda: "the disk of" in str(patient.longest_delay()), "the delay has its reason")
            delay = patient.longest_delay()
            assert delay is not None
            print(f"named after {took_s:.1f} s")
            # The command says it after 5 s.
            reported = next(line.decode() for line in command.stderr if b"the disk of" in line)
            for text in (delay.reason, reported, str(lost.exception(timeout=DEADLINE_S))):
                check_named(text, disk)
            assert "no response from " in delay.reason, "before request.timeout.ms brings one"
            filler.unlink()
            assert kept.result(DEADLINE_S).offset >= 100
            assert command.process.wait(DEADLINE_S) == 0


def check_named(text: str, disk: Path) -> None:
    print(text)
    assert re.search(r"waits for broker 3, which has lacked records for \d+ s: ", text)
    assert f"the disk of {disk / 'node-3'} has" in text
    assert "log.free.space.min.bytes" in text
