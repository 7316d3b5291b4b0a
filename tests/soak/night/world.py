"""The cluster of a scripted night, with its load and its Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, assert_never

from confluent_kafka import Consumer
from msgspec import Struct

from chaos.nemesis import links
from chaos.nemesis.power_loss import PowerLossDisk
from chaos.toxiproxy import Server, find_or_build
from kraft.client import Admin, NewTopic
from kraft.local import cluster_files
from kraft.local.cluster_files import HOST
from kraft.local.free_ports import ReservedPorts
from kraft.server.config.values import PLAINTEXT
from kraft.testing import Cluster, NodeProcess
from tests.soak.full_disk_runs import HEAD_ROOM_BYTES, small_disk
from tests.soak.loads.numbered_load import NumberedLoad
from tests.soak.loads.voter_links import VoterLinks, voters_behind_links
from tests.soak.night.hurried_alerts import Prometheus
from tests.support.waiting import until, until_in_sync
from tests.support.working_thread import WorkingThread

NODES: Final = 3
TOPIC: Final = "orders"
PARTITIONS: Final = 6
GROUP: Final = "billing"
DISK_NODE: Final = 3
"""The node whose disk is small, or slow."""

SETTINGS: Final = {
    "metrics.per.partition": "true",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    # As brokers before KIP-890: that is how transactions come to hang.
    "transaction.partition.verification.enable": "false",
}
_DEADLINE_S: Final = 60.0
_STOP_DEADLINE_S: Final = 30.0
_ANSWER_MS: Final = 2_000
_POLL_S: Final = 0.5


class Surroundings(StrEnum):
    """What a fault needs beside the cluster."""

    PLAIN = "plain"
    BROKER_LINKS = "broker-links"
    """Proxies before each broker."""

    VOTER_LINKS = "voter-links"
    """Proxies between the controllers."""

    SMALL_DISK = "small-disk"
    SLOW_DISK = "slow-disk"


class Night(Struct, kw_only=True, eq=False):
    """A running cluster; `addresses` are those by which its brokers are reached."""

    cluster: Cluster
    directory: Path
    addresses: Mapping[int, str]
    kafka_addresses: str
    names: Mapping[str, str]
    """Names for the addresses that nodes, and proxies before them, have."""

    metrics_ports: Mapping[int, int]
    prometheus: Prometheus
    stack: ExitStack
    """Ends what a fault has started beside the nodes."""

    links: Server | None = None
    voter_links: VoterLinks | None = None
    small_disk: Path | None = None
    slow_disk: PowerLossDisk | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.addresses.values())

    def controller(self) -> NodeProcess:
        """Return the active one."""
        with Admin(self.bootstrap_servers) as admin:
            return self.cluster.node(admin.describe_quorum().leader_id)

    def follower(self) -> NodeProcess:
        """Return the last node that is not the active controller."""
        active = self.controller()
        return [node for node in self.cluster.nodes if node is not active][-1]

    def deposed(self, node: NodeProcess) -> NodeProcess:
        """Return the node once it is not the active controller any more."""
        while self.controller() is node:
            node.terminate()
            node.start()
            self.cluster.wait_ready()
        self.until_in_sync()
        return node

    def until_in_sync(self) -> None:
        with Admin(self.bootstrap_servers) as admin:
            until_in_sync(admin, TOPIC)
            until_in_sync(admin, "__consumer_offsets")


class Reader(WorkingThread):
    """A member of a group that reads committed records, and commits, until the end of the block."""

    def __init__(self, kafka_addresses: str, group: str) -> None:
        super().__init__("reader", _STOP_DEADLINE_S)
        self._settings = {
            "bootstrap.servers": kafka_addresses,
            "group.id": group,
            "client.id": f"{group}-1",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        self.read = 0

    def _work(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([TOPIC])
        try:
            while not self._stopping.is_set():
                self.read += len(consumer.consume(500, _POLL_S))
        finally:
            consumer.close()


@contextmanager
def night(directory: Path, surroundings: Surroundings) -> Iterator[Night]:
    """Start everything below the directory; return once the cluster is in sync and the group reads.

    Raises CannotMount or ToxiproxyMissing where this machine lacks what the surroundings take.
    """
    with ExitStack() as stack:
        *metrics, prometheus_port = stack.enter_context(ReservedPorts(NODES + 1))
        metrics_ports = dict(enumerate(metrics, 1))
        settings = {node_id: {"metrics.address": f"{HOST}:{port}"} for node_id, port in metrics_ports.items()}
        found = Surrounded(stack, directory, surroundings)
        for node_id, more in found.settings.items():
            settings[node_id] |= more
        cluster = Cluster(NODES, directory / "cluster", overrides=SETTINGS, node_overrides=settings)
        found.connect(cluster)
        stack.enter_context(cluster)
        # With a majority away, a node cannot stop in order.
        stack.callback(cluster.kill)
        names = {f"node-{each}": port for each, port in metrics_ports.items()}
        world = Night(
            cluster=cluster,
            directory=directory,
            names=_names(cluster),
            addresses=found.addresses or {node.node_id: node.address or "" for node in cluster.nodes},
            kafka_addresses=found.kafka_addresses or cluster.kafka_bootstrap_servers,
            metrics_ports=metrics_ports,
            prometheus=Prometheus(directory / "prometheus", prometheus_port, names),
            links=found.links,
            voter_links=found.voter_links,
            small_disk=found.small_disk,
            slow_disk=found.slow_disk,
            stack=stack,
        )
        _begin(world, stack)
        stack.enter_context(world.prometheus)
        yield world


def _names(cluster: Cluster) -> dict[str, str]:
    configs = cluster_files.read(cluster.directory)
    listeners = {
        f"{each.host}:{each.port}": f"node-{config.node_id}:{each.name}"
        for config in configs
        for each in (*config.listeners, *config.advertised_listeners)
    }
    voters = {each.address: f"node-{each.node_id}:CONTROLLER" for config in configs for each in config.quorum.voters}
    return listeners | voters


class Surrounded:
    """What is there before the cluster, and what it sets for nodes."""

    def __init__(self, stack: ExitStack, directory: Path, kind: Surroundings) -> None:
        self._stack = stack
        self._kind = kind
        self.settings: dict[int, dict[str, str]] = {}
        self.addresses: dict[int, str] = {}
        self.kafka_addresses = ""
        self.links: Server | None = None
        self.voter_links: VoterLinks | None = None
        self.small_disk: Path | None = None
        self.slow_disk: PowerLossDisk | None = None
        self._ports: list[int] = []
        match kind:
            case Surroundings.SMALL_DISK:
                self.small_disk = stack.enter_context(small_disk(directory / "disk"))
                self.settings[DISK_NODE] = {
                    "log.dirs": str(self.small_disk / "data"),
                    "log.free.space.min.bytes": str(HEAD_ROOM_BYTES),
                    "log.segment.bytes": str(4 << 20),
                }
            case Surroundings.SLOW_DISK:
                place = directory / "cluster" / f"node-{DISK_NODE}"
                self.slow_disk = stack.enter_context(PowerLossDisk(directory / "medium", place))
            case Surroundings.BROKER_LINKS:
                self._ports = list(stack.enter_context(ReservedPorts(2 * NODES + 1)))
                ports = self._ports[1:]
                self.settings = links.advertised(ports[:NODES], ports[NODES:], PLAINTEXT)
            case Surroundings.PLAIN | Surroundings.VOTER_LINKS:
                pass
            case _:
                assert_never(kind)

    def connect(self, cluster: Cluster) -> None:
        """Put proxies before the nodes, where there are to be some. The cluster has not been started."""
        if self._kind is Surroundings.VOTER_LINKS:
            self.voter_links = self._stack.enter_context(voters_behind_links(cluster, find_or_build()))
        if self._kind is Surroundings.BROKER_LINKS:
            api_port, *ports = self._ports
            proxies = links.proxies(cluster, ports[:NODES], ports[NODES:])
            self.links = self._stack.enter_context(Server(find_or_build(), api_port, proxies))
            self.addresses = {node_id: f"{HOST}:{port}" for node_id, port in enumerate(ports[:NODES], 1)}
            self.kafka_addresses = ",".join(f"{HOST}:{port}" for port in ports[NODES:])


def _begin(world: Night, stack: ExitStack) -> None:
    """Create the topic, and begin the load."""
    with Admin(world.bootstrap_servers) as admin:
        admin.create_topics(
            [NewTopic(topic=TOPIC, partitions=PARTITIONS, replication_factor=3, configs={"min.insync.replicas": "2"})]
        )
    load = NumberedLoad(
        world.bootstrap_servers, TOPIC, partitions=PARTITIONS, burst_pause_s=0.05, unacknowledged_max=100_000
    )
    stack.enter_context(load)
    load.wait_for_acknowledgements(100)
    reader = stack.enter_context(Reader(world.kafka_addresses, GROUP))
    until(lambda: reader.read > 0, "the group reads nothing", _DEADLINE_S)
    world.until_in_sync()
