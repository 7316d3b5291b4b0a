"""The configuration of a node as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.transactions.settings import TransactionSettings
from kraft.metadata.broker_configs import TopicDefaultsInEffect
from kraft.metadata.group_configs import GroupBounds
from kraft.model.config_keys import Required, key, whole_number
from kraft.model.ids import BrokerId
from kraft.server.config import readers
from kraft.server.config.access_settings import AccessSettings, AuditSettings
from kraft.server.config.components import (
    BrokerTimings,
    LeaderElections,
    LoggingSettings,
    LogMaintenance,
    LogSettings,
    NetworkLimits,
    QuorumSettings,
    ReplicationConfig,
    TopicDefaults,
)
from kraft.server.config.connection_settings import ConnectionSettings, DefaultQuotas, QuotaWindows
from kraft.server.config.group_settings import OffsetsTopicSettings
from kraft.server.config.listener_security import OPEN, ListenerSecurity
from kraft.server.config.metrics_settings import MetricsSettings
from kraft.server.config.security_settings import SecuritySettings
from kraft.server.config.transaction_settings import TransactionsTopicSettings, TransactionVerification
from kraft.server.config.values import CONTROLLER, GRPC, ConfigWarning, Listener, Role

PROCESS_ID_STEP: Final = 1_000
"""Distance between the ids of two processes of one file; the id of a file with several processes is below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """All settings of one node, checked as a whole."""

    file: Path
    """The file of the settings, for messages."""
    roles: frozenset[Role] = key(
        "process.roles",
        readers.roles,
        "Roles of the node: broker, controller, or broker,controller.",
        default=Required("broker,controller"),
    )
    node_id: BrokerId = key(
        "node.id",
        readers.node_id,
        "Id of the node, unique in the cluster.",
        default=Required("1"),
        older_name="broker.id",
    )
    cluster_id: str | None = key(
        "cluster.id",
        readers.cluster_id,
        "Id of the cluster, for formatting the log directories. Kraft only.",
        default=None,
    )
    """If None, the formatted directories decide."""
    rack: str = key(
        "broker.rack",
        readers.plain_text,
        "Rack of the broker; replicas of a partition are spread over racks. A rack whose name begins with machine: is"
        " one machine, which never gets two replicas of a partition. With node.processes above 1, machine:NODE.ID.",
        default="",
    )
    processes: int = key(
        "node.processes",
        whole_number(1, 64),
        "Brokers that run from this file, each in a process of its own: further ones have node.id + 1000, ports + 10"
        " and directories inside log.dirs. Kraft only.",
        default=1,
    )
    listeners: tuple[Listener, ...] = key(
        "listeners",
        readers.listeners,
        "Listeners of the node, each as NAME://host:port: GRPC, CONTROLLER, and others for Kafka's protocol, such as"
        " PLAINTEXT or SASL_SSL.",
        default=Required("GRPC://localhost:9094,CONTROLLER://localhost:9093"),
    )
    advertised_listeners: tuple[Listener, ...] = key(
        "advertised.listeners",
        readers.listeners,
        "Addresses that clients are sent to, by listener. By default those of listeners.",
        default=(),
    )
    """Completed with defaults: one for each client listener of a broker."""
    log_dirs: tuple[Path, ...] = key(
        "log.dirs",
        readers.directories,
        "Directories of the partition logs, one per disk.",
        default=Required("data/node-1"),
        older_name="log.dir",
    )
    """Absolute, at least one; each partition lives in one of them."""
    metadata_dir: Path | None = key(
        "metadata.log.dir",
        readers.directory,
        "Directory of the metadata log. By default the first of log.dirs.",
        default=None,
    )
    security: SecuritySettings
    access: AccessSettings
    audit: AuditSettings
    quorum: QuorumSettings
    topics: TopicDefaults
    log: LogSettings
    log_maintenance: LogMaintenance
    replication: ReplicationConfig
    broker: BrokerTimings
    elections: LeaderElections
    network: NetworkLimits
    connections: ConnectionSettings
    default_quotas: DefaultQuotas
    quota_windows: QuotaWindows
    offsets_topic: OffsetsTopicSettings
    groups: GroupShardSettings
    group_bounds: GroupBounds
    """Bounds of the configs that groups of the consumer protocol have of their own."""
    transactions_topic: TransactionsTopicSettings
    transactions: TransactionSettings
    transaction_verification: TransactionVerification
    logging: LoggingSettings
    metrics: MetricsSettings
    listener_security: Mapping[str, ListenerSecurity] = field(default_factory=dict)
    """What the listeners with TLS or SASL require, by their names; CONTROLLER is among them if nodes use TLS there."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The file's settings that have an effect, by current key names."""
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def log_dir(self) -> Path:
        """Return the first of `log.dirs`, which names the node in messages."""
        return self.log_dirs[0]

    @property
    def metadata_log_dir(self) -> Path:
        """Return the directory of the metadata log and its snapshots, absolute."""
        return self.metadata_dir or self.log_dir

    def topic_defaults(self) -> TopicDefaultsInEffect:
        """Return the defaults of topics' configs: those of this file, overridden by dynamic configs."""
        return TopicDefaultsInEffect(self.settings, self.topics.configs, str(self.node_id))

    @property
    def is_broker(self) -> bool:
        return Role.BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return Role.CONTROLLER in self.roles

    @property
    def is_whole_cluster(self) -> bool:
        """True if a combined node is the only voter, so that it can choose the cluster id alone."""
        return self.is_broker and [voter.node_id for voter in self.quorum.voters] == [self.node_id]

    @property
    def is_whole_cluster_with_its_processes(self) -> bool:
        """True if the only voter is the node of this file, so that there may be no broker on another machine."""
        of_file = self.node_id % PROCESS_ID_STEP if self.processes > 1 else self.node_id
        return self.is_broker and [voter.node_id for voter in self.quorum.voters] == [of_file]

    @property
    def kafka_listeners(self) -> tuple[Listener, ...]:
        """Return the listeners of Kafka's protocol; each sends its clients to its own addresses."""
        return tuple(listener for listener in self.listeners if listener.name not in (GRPC, CONTROLLER))

    @property
    def bound(self) -> tuple[Listener, ...]:
        """Return all addresses at which the node listens, that of metrics among them."""
        return self.listeners if self.metrics.address is None else (*self.listeners, self.metrics.address)

    def listener(self, name: str) -> Listener | None:
        return next((listener for listener in self.listeners if listener.name == name), None)

    def security_of(self, name: str) -> ListenerSecurity:
        """Return what the listener of that name requires."""
        return self.listener_security.get(name, OPEN)

    def advertised(self, name: str) -> Listener | None:
        return next((listener for listener in self.advertised_listeners if listener.name == name), None)
