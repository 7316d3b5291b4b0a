"""Open clusters that are closed node by node while clients write: the steps that SECURITY.md gives, on real nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest

from kraft.client import Admin, KraftError, Producer, Refusal
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST, NodePlan
from kraft.local.forked_processes import ForkServer
from kraft.local.free_ports import ReservedPorts
from kraft.local.local_cluster import LocalCluster
from kraft.local.node_process import NodeProcess
from kraft.server.identity import storage
from tests.support.certificates import Authority
from tests.support.closed_clusters import PASSWORD, login_settings
from tests.support.waiting import until
from tests.support.working_thread import WorkingThread

TOPIC: Final = "orders"
NODES: Final = 3

FORKS: Final = ForkServer("kraft.cli.foreground:preload")
DEADLINE_S: Final = 60.0


class Writing(WorkingThread):
    """A context manager: notes which numbers were acknowledged, and what failed."""

    def __init__(self, settings: dict[str, Any], first: int = 0) -> None:
        super().__init__("writing", DEADLINE_S)
        self._settings, self._number = settings, first
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []

    def _work(self) -> None:
        producer = confluent_kafka.Producer({**self._settings, "acks": "all", "linger.ms": 1})
        while not self._stopping.is_set():
            producer.produce(TOPIC, str(self._number).encode(), on_delivery=self._noting(self._number))
            self._number += 1
            producer.poll(0.01)
        assert producer.flush(DEADLINE_S) == 0

    def _noting(self, number: int) -> Callable[[Any, Any], None]:
        def note(error: Any, _: Any) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.failures.append(str(error))

        return note


class OwnWriting(Writing):
    """With our client, which also administers."""

    def _work(self) -> None:
        with Producer(**self._settings) as producer, Admin(**self._settings) as admin:
            while not self._stopping.is_set():
                try:
                    producer.send(TOPIC, str(self._number).encode()).result(DEADLINE_S)
                    self.acknowledged.add(self._number)
                    admin.describe_topics([TOPIC])
                except KraftError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                self._number += 1
                self._stopping.wait(0.01)


@contextmanager
def without_failure(writing: Writing) -> Iterator[None]:
    with writing:
        until(lambda: bool(writing.acknowledged or writing.failures), "nothing was acknowledged")
        yield
    assert writing.failures == []
    writing.check()


Change = Callable[[int, dict[str, str]], None]
"""Changes the settings of the node with that id."""


def roll(cluster: LocalCluster, change: Change) -> None:
    """Restart the nodes one after the other, each with settings that are changed."""
    for node in cluster.nodes.values():
        node.terminate()
        rewrite(node, change)
        node.start()
        cluster.wait_ready()


def restart_all(cluster: LocalCluster, change: Change) -> None:
    """Stop all nodes before the first one starts with the changed settings."""
    cluster.stop()
    for node in cluster.nodes.values():
        rewrite(node, change)
    cluster.start()
    cluster.wait_ready()


def rewrite(node: NodeProcess, change: Change) -> None:
    lines = node.config_path.read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    change(node.node_id, settings)
    node.config_path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


@contextmanager
def open_cluster(directory: Path) -> Iterator[tuple[LocalCluster, list[int], list[int]]]:
    """Run nodes with open listeners, and the topic; return them with the ports of PLAINTEXT, and as many others."""
    with ReservedPorts(4 * NODES) as ports:
        opened, grpc, controllers, closed = (list(ports[place * NODES :][:NODES]) for place in range(4))
        plans = [
            NodePlan(
                node_id=place + 1,
                grpc_port=grpc[place],
                controller_port=controllers[place],
                # Not a port of the plan: it goes later.
                settings={
                    "listeners": f"PLAINTEXT://{HOST}:{opened[place]},GRPC://{HOST}:{grpc[place]},"
                    f"CONTROLLER://{HOST}:{controllers[place]}"
                },
            )
            for place in range(NODES)
        ]
        cluster_files.write(directory, plans, storage.random_cluster_id())
        cluster = LocalCluster(directory, plans, launch=FORKS.launch)
        cluster.start()
        try:
            cluster.wait_ready()
            with Admin(cluster.bootstrap_servers) as admin:
                admin.set_password("alice", PASSWORD)
                admin.create_topic(TOPIC, 3, NODES, {"min.insync.replicas": "2"})
            yield cluster, opened, closed
        finally:
            cluster.stop()


def read(settings: dict[str, Any], count: int) -> set[int]:
    consumer = confluent_kafka.Consumer({**settings, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: set[int] = set()
    until_s = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < until_s:
        found |= {int(message.value() or b"-1") for message in consumer.consume(1_000, 0.5)}
    consumer.close()
    return found


@pytest.mark.slow
def test_an_open_cluster_is_closed_while_clients_write_without_a_failed_request(tmp_path: Path) -> None:
    stores = Authority(tmp_path).certify("node")
    with open_cluster(tmp_path) as (cluster, open_ports, closed_ports):

        def add_closed(node_id: int, settings: dict[str, str]) -> None:
            settings["listeners"] += f",SASL_SSL://{HOST}:{closed_ports[node_id - 1]}"
            settings["ssl.keystore.location"] = str(stores.keystore)

        def remove_open(_: int, settings: dict[str, str]) -> None:
            kept = [each for each in settings["listeners"].split(",") if not each.startswith("PLAINTEXT:")]
            settings["listeners"] = ",".join(kept)
            settings["listener.security.protocol.map"] = "GRPC:SASL_PLAINTEXT"

        def encrypt(_: int, settings: dict[str, str]) -> None:
            settings["listener.security.protocol.map"] = "GRPC:SASL_SSL"

        opened = {"bootstrap.servers": ",".join(f"{HOST}:{port}" for port in open_ports)}
        closed = {
            "bootstrap.servers": ",".join(f"{HOST}:{port}" for port in closed_ports),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(stores.truststore),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
        grpc: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers}
        at_the_open_one, at_the_closed_one = Writing(opened), Writing(closed, first=1_000_000)
        # It logs in before it has to.
        at_grpc = OwnWriting({**grpc, **login_settings("SASL_PLAINTEXT")}, first=2_000_000)
        with without_failure(at_grpc):
            with without_failure(at_the_open_one):
                roll(cluster, add_closed)
            assert_credentials_are_checked(cluster.bootstrap_servers)
            with without_failure(at_the_closed_one):
                roll(cluster, remove_open)
        with Admin(**grpc) as admin, pytest.raises(Refusal, match="requires a login"):
            admin.list_topics()
        meanwhile = Writing(closed, first=3_000_000)
        with without_failure(meanwhile):
            restart_all(cluster, encrypt)
        sent = set().union(*(each.acknowledged for each in (at_the_open_one, at_the_closed_one, at_grpc, meanwhile)))
        assert read(closed, len(sent)) == sent
        encrypted: dict[str, Any] = {"ssl.ca.location": str(stores.truststore), **login_settings("SASL_SSL")}
        with Admin(**grpc, **encrypted) as admin:
            assert TOPIC in admin.list_topics()


def assert_credentials_are_checked(bootstrap_servers: str) -> None:
    """Although nobody has to log in yet. No password is sent where others on the network could read it."""
    for password, mechanism, said in (
        ("wrong", "SCRAM-SHA-256", "SASL_AUTHENTICATION_FAILED"),
        (PASSWORD, "PLAIN", "UNSUPPORTED_SASL_MECHANISM"),
    ):
        settings = login_settings("SASL_PLAINTEXT", password=password, mechanism=mechanism)
        with Admin(bootstrap_servers, **settings) as admin, pytest.raises(Refusal, match=said):
            admin.list_topics()
