"""Several listeners of Kafka's protocol on a node: each sends its clients to addresses of its own name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest

from kraft.client import Admin
from kraft.local import cluster_files
from kraft.local.cluster_files import NodePlan
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.metadata.metadata_requests import metadata_of
from kraft.rpc.calls import METADATA
from kraft.rpc.peers import PeerConnections
from kraft.server.identity import storage
from tests.support.command_line import PROGRAMS

DEADLINE_S = 30


class ClusterListeners:
    """Both nodes have INTERNAL, only the first one has EXTERNAL as well.

    The first advertises that one and GRPC under another name of the host than the one that it binds.
    """

    def __init__(self, ports: list[int]) -> None:
        self.grpc, self.controller = ports[:2], ports[2:4]
        self.internal = ports[4:6]
        self.external = ports[6]

    def plans(self) -> list[NodePlan]:
        return [
            NodePlan(
                node_id=number + 1,
                grpc_port=self.grpc[number],
                controller_port=self.controller[number],
                settings=self._settings(number),
            )
            for number in (0, 1)
        ]

    def _settings(self, number: int) -> dict[str, str]:
        listeners = [
            f"GRPC://127.0.0.1:{self.grpc[number]}",
            f"CONTROLLER://127.0.0.1:{self.controller[number]}",
            f"INTERNAL://127.0.0.1:{self.internal[number]}",
        ]
        advertised = [listeners[0], listeners[2]]
        if number == 0:
            listeners.append(f"EXTERNAL://127.0.0.1:{self.external}")
            advertised = [f"GRPC://localhost:{self.grpc[0]}", listeners[2], f"EXTERNAL://localhost:{self.external}"]
        return {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
        }


@pytest.fixture(name="listeners", scope="module")
def _listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterListeners]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with ReservedPorts(7) as ports:
        listeners = ClusterListeners(ports)
        cluster_files.write(directory, listeners.plans(), storage.random_cluster_id())
        cluster = LocalCluster(directory, listeners.plans(), launch=PROGRAMS.launch)
        cluster.start()
        try:
            cluster.wait_ready()
            with Admin(cluster.bootstrap_servers) as admin:
                admin.create_topic("led-by-both", 2, 1)
            yield listeners
        finally:
            cluster.stop()


def reported(address: str) -> Any:
    """A ClusterMetadata."""
    client = confluent_kafka.Producer({"bootstrap.servers": address})
    return client.list_topics("led-by-both", timeout=DEADLINE_S)


def test_each_listener_tells_its_own_addresses(listeners: ClusterListeners) -> None:
    internal = reported(f"127.0.0.1:{listeners.internal[0]}")
    assert {str(broker) for broker in internal.brokers.values()} == {
        f"127.0.0.1:{port}/{number}" for number, port in enumerate(listeners.internal, start=1)
    }
    external = reported(f"127.0.0.1:{listeners.external}")
    assert [str(broker) for broker in external.brokers.values()] == [f"localhost:{listeners.external}/1"]


def test_grpc_clients_get_the_advertised_addresses(listeners: ClusterListeners) -> None:
    async def told_by(number: int) -> set[tuple[int, str, int]]:
        connections = PeerConnections()
        try:
            peer = connections.peer(f"127.0.0.1:{listeners.grpc[number]}")
            answer = await peer.call(METADATA, metadata_of(()), DEADLINE_S)
        finally:
            await connections.close()
        return {(broker.node_id, broker.host, broker.port) for broker in answer.brokers}

    expected = {(1, "localhost", listeners.grpc[0]), (2, "127.0.0.1", listeners.grpc[1])}
    assert [asyncio.run(told_by(number)) for number in (0, 1)] == [expected, expected]


def test_a_leader_without_the_clients_listener_is_reported_as_such(listeners: ClusterListeners) -> None:
    partitions = reported(f"127.0.0.1:{listeners.internal[0]}").topics["led-by-both"].partitions
    assert sorted(partition.leader for partition in partitions.values()) == [1, 2]
    seen = reported(f"127.0.0.1:{listeners.external}").topics["led-by-both"].partitions
    codes = {number: (partition.leader, partition.error) for number, partition in seen.items()}
    (elsewhere,) = [number for number, partition in partitions.items() if partition.leader == 2]
    leader, error = codes.pop(elsewhere)
    assert leader == -1
    assert error is not None
    assert error.code() == confluent_kafka.KafkaError.LISTENER_NOT_FOUND
    assert list(codes.values()) == [(1, None)]


def test_records_go_through_every_listener_that_reaches_the_leader(listeners: ClusterListeners) -> None:
    partitions = reported(f"127.0.0.1:{listeners.internal[0]}").topics["led-by-both"].partitions
    (here,) = [number for number, partition in partitions.items() if partition.leader == 1]
    for port in (listeners.internal[1], listeners.external):
        producer = kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{port}")
        producer.send("led-by-both", b"%d" % port, partition=here).get(DEADLINE_S)
        producer.close(timeout=DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{listeners.external}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_S * 1_000,
    )
    consumer.assign([kafka.TopicPartition("led-by-both", here)])
    records = [next(consumer).value for _ in range(2)]
    consumer.close()
    assert records == [b"%d" % listeners.internal[1], b"%d" % listeners.external]
