"""`kraft replicas verify` on three nodes: while records are written, and with a follower whose file was changed."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from crc32c import crc32c

from kraft.client import Admin, NewTopic, Producer
from kraft.log.format.record_batch import split
from kraft.testing import Cluster
from tests.support.command_line import run, run_kraft
from tests.support.waiting import until_every_broker_knows

RECORDS = 3_000
CRC_AT, CRC_FROM = 17, 21
PARTITIONS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, overrides={"default.replication.factor": "3", "min.insync.replicas": "2"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic("orders", partitions=PARTITIONS)
        until_every_broker_knows(cluster.bootstrap_servers, "orders")
        write(cluster, RECORDS)
        yield cluster


def write(cluster: Cluster, count: int) -> None:
    with Producer(cluster.bootstrap_servers, batch_size=4_000) as producer:
        for number in range(count):
            producer.send("orders", b"value %d" % number, partition=number % PARTITIONS)
        producer.flush()


def verified(cluster: Cluster, *options: str) -> tuple[int, list[dict[str, Any]]]:
    done = run_kraft(cluster, "replicas", "verify", "orders", "--output", "json", *options)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def results(report: dict[str, Any]) -> dict[int, str]:
    return {each["broker_id"]: each["result"] for each in report["replicas"]}


def test_replicas_of_a_healthy_cluster_are_the_same_while_records_are_written(cluster: Cluster) -> None:
    is_over = Event()

    def write_on() -> None:
        while not is_over.is_set():
            write(cluster, 200)

    writer = Thread(target=write_on)
    writer.start()
    try:
        code, reports = verified(cluster)
    finally:
        is_over.set()
        writer.join()
    assert (code, sum(each["records"] for each in reports) >= RECORDS) == (0, True)
    assert [sorted(results(each).values()) for each in reports] == [["reference", "same", "same"]] * PARTITIONS


def test_the_name_of_kafkas_script_asks_kafkas_listeners(cluster: Cluster) -> None:
    servers = cluster.kafka_bootstrap_servers
    done = run("kafka-replica-verification.sh", "--broker-list", servers, "--topics-include", "ord.*", "--time", "-2")
    assert (done.returncode, done.stderr) == (0, "")
    titles, row = done.stdout.splitlines()
    assert titles.split() == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "DIFFERENT", "BEHIND", "NOT-READ"]
    assert row.split()[:3] == ["orders", str(PARTITIONS), "6"]
    assert row.split()[4:] == ["0", "0", "0"]


def test_a_topic_with_one_replica_is_not_said_to_be_compared(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        configs = {"min.insync.replicas": "1"}
        admin.create_topics([NewTopic(topic="single", partitions=2, replication_factor=1, configs=configs)])
    done = run_kraft(cluster, "replicas", "verify", "single")
    assert (done.returncode, done.stderr) == (0, "2 partitions with one replica: nothing is compared there\n")


def test_what_is_wrong_with_the_options_is_one_line(cluster: Cluster) -> None:
    for options, reason in (
        (("nothere",), "topic 'nothere' does not exist"),
        (("orders", "--partition", "7"), "there is no partition 7 of orders"),
        (("--topics-include", "z+"), "no topic matches"),
    ):
        done = run_kraft(cluster, "replicas", "verify", *options)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert reason in line


def test_a_changed_record_of_a_follower_is_found_and_its_replica_named(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        described = admin.describe_topics(["orders"])[0].metadata.partitions
    (partition,) = [each for each in described if each.partition_index == 0]
    follower = next(each for each in partition.replica_nodes if each != partition.leader_id)
    cluster.node(follower).terminate()
    code, reports = verified(cluster)
    assert (code, results(reports[0])[follower]) == (1, "not read")
    offset = flip_in_third_batch(cluster.directory / f"node-{follower}")
    cluster.start()
    cluster.wait_ready()
    code, reports = verified(cluster)
    assert code == 1
    found = {each["broker_id"]: each for each in reports[0]["replicas"]}
    assert results(reports[0]) == dict.fromkeys((1, 2, 3), "same") | {
        partition_leader(cluster): "reference",
        follower: "different",
    }
    assert (found[follower]["difference"]["first_offset"], found[follower]["difference"]["differing"]) == (offset, 1)
    assert sorted(results(reports[1]).values()) == ["reference", "same", "same"]
    # Its own checksums are right: only the comparison finds it.
    assert run("log", "verify", cluster.directory / f"node-{follower}" / "orders-0").returncode == 0


def partition_leader(cluster: Cluster) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        partitions = admin.describe_topics(["orders"])[0].metadata.partitions
    return next(each.leader_id for each in partitions if each.partition_index == 0)


def flip_in_third_batch(node: Path) -> int:
    """Change the value of its last record, and the checksum with it; return the record's offset."""
    (path,) = node.glob("**/orders-0/*.log")
    data = bytearray(path.read_bytes())
    (_, first), (_, second), (header, third) = split(bytes(data))[:3]
    begin = len(first) + len(second)
    # The last byte is the number of headers.
    data[begin + len(third) - 2] ^= 1
    checksum = crc32c(bytes(data[begin + CRC_FROM : begin + len(third)]))
    data[begin + CRC_AT : begin + CRC_FROM] = struct.pack(">I", checksum)
    path.write_bytes(data)
    return header.last_offset
