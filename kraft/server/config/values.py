"""What a node is told by its configuration file, as frozen values: one dataclass a component.

Each docstring of a field names Kafka's key; what the keys mean, take and default to stands in `config_keys`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from kraft.metadata.configs import TopicConfig
from kraft.model.ids import BrokerId

GRPC = "GRPC"
"""Our own listener: clients, and brokers among themselves."""

CONTROLLER = "CONTROLLER"
"""The quorum and what brokers ask the active controller."""

PLAINTEXT = "PLAINTEXT"
"""The Kafka wire protocol, as every other listener that is mapped to the security protocol of this name."""

SSL = "SSL"
"""The security protocol of a listener that speaks TLS; that of one which does not is PLAINTEXT."""

UNLIMITED_BYTES_PER_SECOND: Final = 0x7FFFFFFFFFFFFFFF
"""Where nothing is said about how fast background work may read and write."""


class Role(StrEnum):
    BROKER = "broker"
    CONTROLLER = "controller"


class Durability(StrEnum):
    """What a replica waits for before it counts a record as its own."""

    FSYNC = "fsync"
    PAGE_CACHE = "page-cache"


def host_and_port(host: str, port: int) -> str:
    """As people and gRPC write it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant. A name other than localhost is not looked up: it may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Listener:
    """`name://host:port`. An empty host listens on every interface; an advertised listener always has one."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port` to bind to or to dial; every interface is `[::]`."""
        return host_and_port(self.host or "::", self.port)

    @property
    def is_wildcard(self) -> bool:
        """True when it names every interface, which no client can dial."""
        return self.host in ("", "0.0.0.0", "::")

    def __str__(self) -> str:
        return f"{self.name}://{host_and_port(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Voter:
    """One controller of the metadata quorum: `node_id@host:port` of its CONTROLLER listener."""

    node_id: BrokerId
    host: str
    port: int

    @property
    def address(self) -> str:
        return host_and_port(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.node_id}@{self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The metadata quorum as this node sees it, whether it votes or only follows."""

    voters: tuple[Voter, ...]
    """`controller.quorum.voters`"""

    election_timeout_ms: int
    """`controller.quorum.election.timeout.ms`: the upper end of the random wait; the lower end is half of it."""

    fetch_timeout_ms: int | None
    """`controller.quorum.fetch.timeout.ms`: likewise; None for the election timeout."""

    election_backoff_ms_max: int | None
    """`controller.quorum.election.backoff.max.ms`: None for a quarter of the election timeout."""

    request_timeout_ms: int
    """`controller.quorum.request.timeout.ms`"""

    append_linger_ms: int
    """`controller.quorum.append.linger.ms`"""

    snapshot_entry_bytes_between: int
    """`metadata.log.max.record.bytes.between.snapshots`"""

    snapshot_interval_ms: int
    """`metadata.log.max.snapshot.interval.ms`: 0 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """By what the nodes of a cluster know each other. With nothing set, they share a secret of this machine."""

    secret_file: Path | None
    """`cluster.secret.file`, ours"""

    protocols: tuple[tuple[str, str], ...]
    """`listener.security.protocol.map`: names and protocols, also of listeners that are not there."""

    keystore_file: Path | None
    """`ssl.keystore.location`: this node's private key and certificates, PEM."""

    truststore_file: Path | None
    """`ssl.truststore.location`: the certificates of those who certify nodes, PEM."""

    @property
    def controllers_use_tls(self) -> bool:
        return (CONTROLLER, SSL) in self.protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic gets that is created without saying otherwise."""

    partitions: int
    """`num.partitions`"""

    replication_factor: int
    """`default.replication.factor`"""

    configs: TopicConfig
    """What every topic has in effect that does not set it itself: from the brokers' keys for topic configs."""

    auto_create_enabled: bool
    """`auto.create.topics.enable`"""

    deletion_enabled: bool
    """`delete.topic.enable`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Partition logs, whatever their topic."""

    durability: Durability
    """`log.durability`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMaintenance:
    """What a broker does about its logs in the background, all of them taken together."""

    retention_check_interval_ms: int
    """`log.retention.check.interval.ms`"""

    flush_check_interval_ms: int
    """`log.flush.scheduler.interval.ms`: how often logs are looked at for `flush.ms`."""

    cleaner_enabled: bool
    """`log.cleaner.enable`: whether logs with `cleanup.policy=compact` are compacted."""

    cleaner_threads: int
    """`log.cleaner.threads`"""

    cleaner_backoff_ms: int
    """`log.cleaner.backoff.ms`: the pause when no log needs cleaning."""

    cleaner_dedupe_buffer_bytes: int
    """`log.cleaner.dedupe.buffer.size`: the offset maps of all cleaner threads together."""

    cleaner_io_bytes_per_second_max: int
    """`log.cleaner.io.max.bytes.per.second`: read and written, together; UNLIMITED_BYTES_PER_SECOND is no limit."""

    producer_id_expiration_ms: int
    """`producer.id.expiration.ms`: after so long a silence a producer's sequence is forgotten."""

    producer_id_expiration_check_interval_ms: int
    """`producer.id.expiration.check.interval.ms`"""

    scrub_interval_ms: int
    """`log.scrub.interval.ms`, ours: in that time every byte of every log is read once; 0 switches it off."""

    scrub_io_bytes_per_second_max: int
    """`log.scrub.io.max.bytes.per.second`, ours: read by the scrub; UNLIMITED_BYTES_PER_SECOND is no limit."""

    free_space_bytes_min: int
    """`log.free.space.min.bytes`, ours: with less on the disk, produce is refused; 0 switches it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """How this broker follows partition leaders, and when it drops a follower of its own from the ISR."""

    lag_time_max_ms: int
    """`replica.lag.time.max.ms`"""

    fetch_bytes_max: int
    """`replica.fetch.max.bytes`: of one partition."""

    fetch_response_bytes_max: int
    """`replica.fetch.response.max.bytes`: of all partitions in one answer."""

    fetch_bytes_min: int
    """`replica.fetch.min.bytes`"""

    fetch_wait_max_ms: int
    """`replica.fetch.wait.max.ms`"""

    high_watermark_checkpoint_interval_ms: int
    """`replica.high.watermark.checkpoint.interval.ms`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimings:
    """A broker's life in the eyes of the active controller."""

    heartbeat_interval_ms: int
    """`broker.heartbeat.interval.ms`"""

    session_timeout_ms: int
    """`broker.session.timeout.ms`: silence after which the controller fences the broker."""

    controlled_shutdown_enabled: bool
    """`controlled.shutdown.enable`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElections:
    """The elections that the active controller holds unasked."""

    rebalance_enabled: bool = True
    """`auto.leader.rebalance.enable`"""

    imbalance_check_interval_s: int = 300
    """`leader.imbalance.check.interval.seconds`"""

    imbalance_per_broker_percentage: int = 10
    """`leader.imbalance.per.broker.percentage`: so many of those that prefer a broker may be led elsewhere."""

    unclean_interval_ms: int = 300_000
    """`unclean.leader.election.interval.ms`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    request_bytes_max: int
    """`socket.request.max.bytes`"""

    connections_max: int
    """`max.connections`"""

    connection_idle_ms_max: int
    """`connections.max.idle.ms`"""

    advertised_check_enabled: bool
    """`advertised.listeners.check.enable`: whether the node looks for itself at the addresses that it advertises."""


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """A setting that was read and does not do what its writer expects."""

    key: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything one node is told at its start, checked as a whole."""

    file: Path
    """The file it was read from, for messages."""

    roles: frozenset[Role]
    """`process.roles`"""

    node_id: BrokerId
    """`node.id`"""

    cluster_id: str | None
    """`cluster.id`; None leaves it to the formatted directory."""

    rack: str
    """`broker.rack`, empty when not said."""

    listeners: tuple[Listener, ...]
    """`listeners`"""

    advertised_listeners: tuple[Listener, ...]
    """`advertised.listeners`, completed: one for each client listener of a broker."""

    log_dirs: tuple[Path, ...]
    """`log.dirs`, absolute, at least one; each partition lives in one of them."""

    metadata_log_dir: Path
    """`metadata.log.dir`, absolute; the first log directory when not said."""

    quorum: QuorumSettings
    security: SecuritySettings
    topics: TopicDefaults
    log: LogSettings
    log_maintenance: LogMaintenance
    replication: ReplicationConfig
    broker: BrokerTimings
    elections: LeaderElections
    network: NetworkLimits

    log_level: str
    """`log.level`: of what the node writes about itself."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """What the file says of the keys that have an effect, by their proper names."""

    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def log_dir(self) -> Path:
        """The first of `log.dirs`, which names the node in messages."""
        return self.log_dirs[0]

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
