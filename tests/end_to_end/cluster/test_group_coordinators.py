"""Coordinators of groups on real nodes: found on each listener, killed, and loaded from a damaged log."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kraft.client import Admin
from kraft.coordinator.group_partition import partition_of
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record
from kraft.metadata.topic_names import OFFSETS_TOPIC
from kraft.model.configs import ConfigSource
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset, TopicPartition
from kraft.rpc.group_calls import FIND_COORDINATOR
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.testing import Cluster
from kraft.wire.frame import decode_response
from kraft.wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.soak import coordinator_kill_runs
from tests.support.command_line import run_kraft
from tests.support.kafka.kafka_connection import Connection
from tests.support.records import create_topic
from tests.support.waiting import until

DEADLINE_S = 60.0
GROUP = "billing"
KAFKA_VERSION = 6


def find(server: str) -> Coordinator:
    async def ask() -> Coordinator:
        connections = PeerConnections()
        try:
            request = FindCoordinatorRequest(coordinator_keys=(GROUP,))
            (found,) = (await connections.peer(server).call(FIND_COORDINATOR, request, DEADLINE_S)).coordinators
        finally:
            await connections.close()
        return found

    async def ask_until_answered() -> Coordinator:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                # A node that creates fifty partitions on a busy machine may not answer a new connection in time.
                with suppress(Unreachable):
                    return await ask()

    return asyncio.run(ask_until_answered())


def find_as_kafkas_clients(server: str) -> Any:
    with Connection(server) as connection:
        connection.send(FindCoordinatorRequest(coordinator_keys=(GROUP,)), KAFKA_VERSION)
        _, response = decode_response(FindCoordinatorResponse, KAFKA_VERSION, connection.frame() or b"")
    return response.coordinators[0]


def found(server: str) -> Coordinator:
    """Return the coordinator, once the topic is created."""
    until(lambda: find(server).error_code == ErrorCode.NONE, lambda: str(find(server)))
    return find(server)


def commit(cluster: Cluster, offset: int) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.kafka_bootstrap_servers, "group.id": GROUP})
    try:
        partition = confluent_kafka.TopicPartition("orders", 0, offset)
        until(lambda: _is_committed(consumer, partition), "the offset is not committed")
    finally:
        consumer.close()


def _is_committed(consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition) -> bool:
    try:
        consumer.commit(offsets=[partition], asynchronous=False)
    except confluent_kafka.KafkaException:
        return False
    return True


def committed(cluster: Cluster) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.kafka_bootstrap_servers, "group.id": GROUP})
    try:
        (partition,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=60)
    finally:
        consumer.close()
    return partition.offset


def directories_that_name(group: str, cluster: Cluster) -> set[str]:
    """Return the names of the directories of the nodes with a file that holds these bytes."""
    found = set()
    for file in cluster.directory.glob("node-*/**/*"):
        # A running node writes files anew, under other names at first.
        with suppress(FileNotFoundError, IsADirectoryError):
            if group.encode() in file.read_bytes():
                found.add(file.parent.name)
    return found


def events(cluster: Cluster, event: str) -> list[dict[str, Any]]:
    lines = (cluster.directory / "node-1.log").read_text().splitlines()
    found = (json.loads(line) for line in lines if line.startswith("{"))
    return [each for each in found if each["event"] == event]


# --- one node ------------------------------------------------------------------------------------------------


def test_one_node_coordinates_groups_without_any_setting() -> None:
    with Cluster(nodes=1) as cluster, Admin(cluster.bootstrap_servers) as admin:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        assert find(cluster.bootstrap_servers).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        coordinator = found(cluster.bootstrap_servers)
        assert f"{coordinator.host}:{coordinator.port}" == cluster.bootstrap_servers
        kafka = find_as_kafkas_clients(cluster.kafka_bootstrap_servers)
        assert (f"{kafka.host}:{kafka.port}", kafka.error_code) == (cluster.kafka_bootstrap_servers, 0)
        commit(cluster, 17)
        assert committed(cluster) == 17
        assert directories_that_name(GROUP, cluster) == {f"{OFFSETS_TOPIC}-{partition_of(GROUP, 50)}"}
        (described,) = admin.describe_topics([OFFSETS_TOPIC])
        assert len(described.metadata.partitions) == 50
        assert described.configs["cleanup.policy"] == "compact"
        admin.delete_topics(["orders"])
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        until(lambda: committed(cluster) == confluent_kafka.OFFSET_INVALID, "the offset outlives its topic")


def test_a_group_has_configs_of_its_own() -> None:
    own = "consumer.session.timeout.ms"
    with Cluster(nodes=1, overrides={"offsets.topic.num.partitions": "1"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.alter_group_configs(GROUP, {own: "50000"})
            (described,) = [each for each in admin.describe_group_configs(GROUP) if each.name == own]
            assert (described.value, described.config_source) == ("50000", ConfigSource.DYNAMIC_GROUP_CONFIG)
            (other,) = [each for each in admin.describe_group_configs("other") if each.name == own]
            assert (other.value, other.config_source) == ("45000", ConfigSource.DEFAULT_CONFIG)
            with pytest.raises(Refusal) as refused:
                admin.alter_group_configs(GROUP, {own: "1"})
            assert refused.value.error_code is ErrorCode.INVALID_CONFIG
        group = ("--entity-type", "groups", "--entity-name", GROUP)
        assert f"{own}=50000" in run_kraft(cluster, "configs", "describe", *group).stdout
        run_kraft(cluster, "configs", "alter", *group, "--add-config", "consumer.heartbeat.interval.ms=6000")
        cluster.stop()
        cluster.start()
        cluster.wait_ready()
        with Admin(cluster.bootstrap_servers) as admin:
            configs = {each.name: each.value for each in admin.describe_group_configs(GROUP)}
        defaults = {"consumer.assignment.interval.ms": "1000"}
        assert configs == {own: "50000", "consumer.heartbeat.interval.ms": "6000", **defaults}


def test_clients_cannot_write_to_the_offsets_topic() -> None:
    with Cluster(nodes=1, overrides={"offsets.topic.num.partitions": "1"}) as cluster:
        found(cluster.bootstrap_servers)
        errors: list[Any] = []
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers})
        producer.produce(OFFSETS_TOPIC, b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(60)
        assert [error.code() for error in errors] == [confluent_kafka.KafkaError.TOPIC_EXCEPTION]
        with Admin(cluster.bootstrap_servers) as admin, pytest.raises(Refusal) as refused:
            admin.delete_records({TopicPartition(OFFSETS_TOPIC, 0): Offset(0)})
        assert refused.value.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_without_enough_brokers_the_reason_is_logged() -> None:
    with Cluster(nodes=1, overrides={"offsets.topic.replication.factor": "3"}) as cluster:
        until(lambda: "replication factor" in str(find(cluster.bootstrap_servers)), "no reason is given")
        assert find(cluster.bootstrap_servers).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        (event,) = events(cluster, "topic not created")
        assert event["topic"] == OFFSETS_TOPIC


def test_a_damaged_record_of_the_offsets_topic_is_skipped() -> None:
    with Cluster(nodes=1, overrides={"offsets.topic.num.partitions": "1"}) as cluster:
        create_topic(cluster.bootstrap_servers, "orders", partitions=1, replication_factor=1)
        found(cluster.bootstrap_servers)
        commit(cluster, 17)
        cluster.node(1).kill()
        append_damaged(cluster.directory / "node-1" / f"{OFFSETS_TOPIC}-0")
        cluster.start()
        cluster.wait_ready()
        found(cluster.bootstrap_servers)
        assert committed(cluster) == 17
        (event,) = [each for each in events(cluster, "coordinator loaded") if each["skipped"]]
        assert (event["skipped"], event["records"] > 0) == (2, True)
        commit(cluster, 18)
        assert committed(cluster) == 18


def append_damaged(directory: Path) -> None:
    """Append a batch of records to the last segment, as a node would: one is damaged, the other of no known type."""
    (segment,) = directory.glob("*.log")
    header, _ = split(segment.read_bytes())[-1]
    records = [Record(0, 1_000, b"\x00\x01\x7f\xff", b"\x00\x04", ()), Record(1, 1_000, b"\x01\x00", b"\x00\x00", ())]
    batch = build_batch(records, base_offset=header.next_offset, leader_epoch=header.leader_epoch)
    with segment.open("ab") as file:
        file.write(batch)


# --- three nodes ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_committed_offsets_and_members_are_there_at_the_next_coordinator() -> None:
    """The run compares what is committed with what was acknowledged, after kill -9 of coordinators under load."""
    ended = coordinator_kill_runs.run(times=2, seed=1)
    assert [bool(kill.gaps_s) for kill in ended.kills] == [True] * 2
    assert ended.commits > 0
    assert ended.joins == coordinator_kill_runs.GROUPS, f"members were forgotten: {ended.failures}"


def test_each_broker_names_the_coordinator_with_the_address_for_its_listener() -> None:
    with Cluster(nodes=3, overrides={"offsets.topic.num.partitions": "5"}) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            servers = cluster.bootstrap_servers.split(",")
            kafka_servers = cluster.kafka_bootstrap_servers.split(",")
            coordinator = found(servers[0])
            (described,) = admin.describe_topics([OFFSETS_TOPIC])
        assert [len(each.replica_nodes) for each in described.metadata.partitions] == [3] * 5
        assert coordinator.node_id == described.metadata.partitions[partition_of(GROUP, 5)].leader_id
        assert f"{coordinator.host}:{coordinator.port}" == servers[coordinator.node_id - 1]
        found_as_kafkas_clients = [_eventually_found(server) for server in kafka_servers]
    assert {each.node_id for each in found_as_kafkas_clients} == {coordinator.node_id}
    assert {f"{each.host}:{each.port}" for each in found_as_kafkas_clients} == {kafka_servers[coordinator.node_id - 1]}


def _eventually_found(server: str) -> Any:
    """Return the coordinator, once this broker knows the topic."""
    until(lambda: find_as_kafkas_clients(server).error_code == 0, f"{server} does not know the topic")
    return find_as_kafkas_clients(server)
