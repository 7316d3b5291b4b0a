"""A node's configuration as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

from kraft.model.ids import BrokerId
from kraft.server.config import readers
from kraft.server.config.components import (
    BrokerTimings,
    LeaderElections,
    LoggingSettings,
    LogMaintenance,
    LogSettings,
    NetworkLimits,
    QuorumSettings,
    ReplicationConfig,
    SecuritySettings,
    TopicDefaults,
)
from kraft.server.config.declaration import Required, key
from kraft.server.config.values import CONTROLLER, GRPC, ConfigWarning, Listener, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything one node is told at its start, checked as a whole."""

    file: Path
    """The file it was read from, for messages."""
    roles: frozenset[Role] = key(
        "process.roles",
        readers.roles,
        "broker, controller, or broker,controller",
        default=Required("broker,controller"),
    )
    node_id: BrokerId = key(
        "node.id",
        readers.node_id,
        "The node's own number in the cluster.",
        default=Required("1"),
        older_name="broker.id",
    )
    cluster_id: str | None = key(
        "cluster.id",
        readers.cluster_id,
        "The cluster that the node belongs to; ours, for the formatting.",
        default=None,
    )
    """None leaves it to the formatted directory."""
    rack: str = key("broker.rack", readers.plain_text, "Replicas of a partition are spread over racks.", default="")
    listeners: tuple[Listener, ...] = key(
        "listeners",
        readers.listeners,
        "NAME://host:port of every listener: PLAINTEXT, GRPC, CONTROLLER.",
        default=Required("GRPC://localhost:9094,CONTROLLER://localhost:9093"),
    )
    advertised_listeners: tuple[Listener, ...] = key(
        "advertised.listeners", readers.listeners, "Where clients reach the listeners, if elsewhere.", default=()
    )
    """Completed: one for each client listener of a broker."""
    log_dirs: tuple[Path, ...] = key(
        "log.dirs",
        readers.directories,
        "The directories of the partition logs, one a disk.",
        default=Required("data/node-1"),
        older_name="log.dir",
    )
    """Absolute, at least one; each partition lives in one of them."""
    metadata_dir: Path | None = key(
        "metadata.log.dir",
        readers.directory,
        "The directory of the metadata log, if not the first of log.dirs.",
        default=None,
    )
    security: SecuritySettings
    quorum: QuorumSettings
    topics: TopicDefaults
    log: LogSettings
    log_maintenance: LogMaintenance
    replication: ReplicationConfig
    broker: BrokerTimings
    elections: LeaderElections
    network: NetworkLimits
    logging: LoggingSettings
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the file says of the keys that have an effect, by their proper names."""
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def log_dir(self) -> Path:
        """The first of `log.dirs`, which names the node in messages."""
        return self.log_dirs[0]

    @property
    def metadata_log_dir(self) -> Path:
        """Where the metadata log and its snapshots are, absolute."""
        return self.metadata_dir or self.log_dir

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Role.CONTROLLER in self.roles

    @property
    def is_whole_cluster(self) -> bool:
        """True for a combined node that is the only voter: there is nobody to agree with on a cluster id."""
        return self.is_broker and [voter.node_id for voter in self.quorum.voters] == [self.node_id]

    @property
    def kafka_listeners(self) -> tuple[Listener, ...]:
        """Those that speak Kafka's protocol, each of which tells clients its own addresses."""
        return tuple(listener for listener in self.listeners if listener.name not in (GRPC, CONTROLLER))

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)

    def advertised(self, name: str) -> Listener | None:
        return next((listener for listener in self.advertised_listeners if listener.name == name), None)


COMPONENTS: Final[Mapping[str, type[Any]]] = {
    name: kind for name, kind in get_type_hints(NodeConfig).items() if isinstance(kind, type) and is_dataclass(kind)
}
"""The classes of its components, by the names of its fields."""
