"""The components of a node's configuration: one frozen dataclass each, every field declared with the key that fills it.

The names of the keys are Kafka's, and so are the defaults, except where the purpose says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kraft.metadata.config_types import INT32_MAX, INT64_MAX
from kraft.metadata.configs import TopicConfig
from kraft.server.config import readers
from kraft.server.config.declaration import Required, key
from kraft.server.config.readers import MIB
from kraft.server.config.values import CONTROLLER, SSL, UNLIMITED_BYTES_PER_SECOND, Durability, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """By what the nodes of a cluster know each other. With nothing set, they share a secret of this machine."""

    secret_file: Path | None = key(
        "cluster.secret.file",
        readers.file,
        "Ours: a file with a secret that every node of the cluster has, and nobody else.",
        default=None,
    )
    protocols: tuple[tuple[str, str], ...] = key(
        "listener.security.protocol.map",
        readers.security_protocols,
        "NAME:PROTOCOL of listeners; CONTROLLER:SSL is TLS with certificates on both sides.",
        default=(),
    )
    """Names and protocols, also of listeners that are not there."""
    keystore_file: Path | None = key(
        "ssl.keystore.location",
        readers.file,
        "A PEM file with the node's private key, not encrypted, and its certificates.",
        default=None,
    )
    truststore_file: Path | None = key(
        "ssl.truststore.location",
        readers.file,
        "A PEM file with the certificates of those who certify the nodes of the cluster, and only those.",
        default=None,
    )

    @property
    def controllers_use_tls(self) -> bool:
        return (CONTROLLER, SSL) in self.protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """The metadata quorum as this node sees it, whether it votes or only follows."""

    voters: tuple[Voter, ...] = key(
        "controller.quorum.voters",
        readers.voters,
        "id@host:port of every controller.",
        default=Required("1@localhost:9093"),
    )
    election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms",
        readers.whole_number(100, 60_000),
        "A controller that stands for election and is not elected stands again after half of it up to all of it.",
        default=1_000,
    )
    fetch_timeout_ms: int | None = key(
        "controller.quorum.fetch.timeout.ms",
        readers.whole_number(100, 60_000),
        "A controller that hears no leader for half of it up to all of it stands for election, and a leader that hears"
        " no majority for all of it steps down. Without it, as controller.quorum.election.timeout.ms.",
        default=None,
    )
    election_backoff_ms_max: int | None = key(
        "controller.quorum.election.backoff.max.ms",
        readers.whole_number(1, 60_000),
        "Longest pause before a controller that no majority would vote for asks again. Without it, and at most, a"
        " quarter of controller.quorum.election.timeout.ms.",
        default=None,
    )
    request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms",
        readers.whole_number(100, 600_000),
        "A controller that gives no sign of life for so long is connected to anew. Kafka's default is 2000.",
        default=1_000,
    )
    append_linger_ms: int = key(
        "controller.quorum.append.linger.ms",
        readers.whole_number(0, 30_000),
        "How long the active controller waits for more metadata changes that share a sync. Kafka's default is 25.",
        default=0,
    )
    snapshot_entry_bytes_between: int = key(
        "metadata.log.max.record.bytes.between.snapshots",
        readers.whole_number(1, INT64_MAX),
        "A snapshot of the metadata is written after that many bytes of new entries.",
        default=20 * 1024 * 1024,
    )
    snapshot_interval_ms: int = key(
        "metadata.log.max.snapshot.interval.ms",
        readers.whole_number(0, INT64_MAX),
        "And after that time, if anything is new; 0 for never.",
        default=3_600_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """What a topic gets that is created without saying otherwise."""

    partitions: int = key(
        "num.partitions", readers.whole_number(1, 10_000), "Of a topic that does not say how many.", default=1
    )
    replication_factor: int = key(
        "default.replication.factor",
        readers.whole_number(1, 32_767),
        "Of a topic that does not say how many.",
        default=1,
    )
    configs: TopicConfig
    """What every topic has in effect that does not set it itself: from the brokers' keys for topic configs."""
    auto_create_enabled: bool = key(
        "auto.create.topics.enable", readers.boolean, "Created when first asked for.", default=True
    )
    deletion_enabled: bool = key("delete.topic.enable", readers.boolean, "Whether topics can be deleted.", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Partition logs, whatever their topic."""

    durability: Durability = key(
        "log.durability",
        readers.durability,
        "Ours. fsync: acks=all is answered when every in-sync replica has it on disk; page-cache: in memory, as Kafka.",
        default=Durability.FSYNC,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMaintenance:
    """What a broker does about its logs in the background, all of them taken together."""

    retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms",
        readers.whole_number(1, INT64_MAX),
        "How often logs are looked at for what retention lets go.",
        default=300_000,
        older_name="retention.check.interval.ms",
    )
    flush_check_interval_ms: int = key(
        "log.flush.scheduler.interval.ms",
        readers.whole_number(1, INT64_MAX),
        "How often logs are looked at for flush.ms. By Kafka's default they never are, so that flush.ms does nothing.",
        default=1_000,
    )
    cleaner_enabled: bool = key(
        "log.cleaner.enable", readers.boolean, "Whether logs with cleanup.policy=compact are compacted.", default=True
    )
    cleaner_threads: int = key("log.cleaner.threads", readers.whole_number(1, 64), "Compacting at a time.", default=1)
    cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms",
        readers.whole_number(0, INT64_MAX),
        "The cleaner's pause when no log needs it.",
        default=15_000,
    )
    cleaner_dedupe_buffer_bytes: int = key(
        "log.cleaner.dedupe.buffer.size",
        readers.whole_number(MIB, INT64_MAX),
        "For the keys that are being compacted, all threads together. Kafka's is 128 MiB; a node of ours is one of "
        "several processes on its machine, and more keys take another pass, not more memory.",
        default=32 * MIB,
    )
    cleaner_io_bytes_per_second_max: int = key(
        "log.cleaner.io.max.bytes.per.second",
        readers.bytes_per_second,
        "Read and written by the cleaner, together.",
        default=UNLIMITED_BYTES_PER_SECOND,
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms",
        readers.whole_number(1),
        "A producer that is silent for this long is forgotten, and its next batch not checked against the last.",
        default=86_400_000,
    )
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms",
        readers.whole_number(1),
        "How often silent producers are looked for.",
        default=600_000,
    )
    scrub_interval_ms: int = key(
        "log.scrub.interval.ms",
        readers.whole_number(0, INT64_MAX),
        "Ours: in this time all logs are read once, so that rot is found while other replicas are whole; 0: never.",
        default=7 * 86_400_000,
    )
    scrub_io_bytes_per_second_max: int = key(
        "log.scrub.io.max.bytes.per.second",
        readers.bytes_per_second,
        "Ours: read by the scrub, which at this speed passes 4.6 TiB in its seven days and leaves the disk to others.",
        default=8 * MIB,
    )
    free_space_bytes_min: int = key(
        "log.free.space.min.bytes",
        readers.whole_number(0, INT64_MAX),
        "Ours: with less free on the disk of a log, producers are refused until there is more again; 0: never.",
        default=64 * MIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """Where the node writes what happens to it. Standard error always gets it, too."""

    level: str = key(
        "log.level",
        readers.one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "Ours: least severe level of the events that the node logs.",
        default="INFO",
    )
    file: Path | None = key(
        "log.file",
        readers.file,
        "Ours: file that the node logs to, as JSON lines, beside standard error; each node needs its own.",
        default=None,
    )
    file_bytes_max: int = key(
        "log.file.max.bytes",
        readers.whole_number(64 * 1024, INT64_MAX),
        "Ours: size at which log.file is renamed to log.file.1 and begun again.",
        default=64 * MIB,
    )
    file_backups_max: int = key(
        "log.file.max.backups",
        readers.whole_number(1, 1_000),
        "Ours: number of renamed log files that are kept.",
        default=10,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """How this broker follows partition leaders, and when it drops a follower of its own from the ISR."""

    lag_time_max_ms: int = key(
        "replica.lag.time.max.ms",
        readers.whole_number(100),
        "A follower that was not caught up for this long leaves the ISR.",
        default=30_000,
    )
    fetch_bytes_max: int = key(
        "replica.fetch.max.bytes", readers.whole_number(1_024), "Of one partition in a fetch.", default=MIB
    )
    fetch_response_bytes_max: int = key(
        "replica.fetch.response.max.bytes",
        readers.whole_number(1_024),
        "Of all partitions in a fetch.",
        default=10 * MIB,
    )
    fetch_bytes_min: int = key(
        "replica.fetch.min.bytes", readers.whole_number(1), "A leader waits for so many bytes.", default=1
    )
    fetch_wait_max_ms: int = key(
        "replica.fetch.wait.max.ms", readers.whole_number(1), "And no longer than this.", default=500
    )
    high_watermark_checkpoint_interval_ms: int = key(
        "replica.high.watermark.checkpoint.interval.ms",
        readers.whole_number(100),
        "How often high watermarks are written to disk.",
        default=5_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimings:
    """A broker's life in the eyes of the active controller."""

    heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms",
        readers.whole_number(10),
        "Kafka's is 2000: a dead broker is noticed sooner here.",
        default=500,
    )
    session_timeout_ms: int = key(
        "broker.session.timeout.ms",
        readers.whole_number(100),
        "Kafka's is 9000: a dead broker's partitions find a new leader sooner here.",
        default=3_000,
    )
    controlled_shutdown_enabled: bool = key(
        "controlled.shutdown.enable", readers.boolean, "Leaders move before a stop.", default=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElections:
    """The elections that the active controller holds unasked."""

    rebalance_enabled: bool = key(
        "auto.leader.rebalance.enable",
        readers.boolean,
        "Whether preferred leaders get back what others lead in their place.",
        default=True,
    )
    imbalance_check_interval_s: int = key(
        "leader.imbalance.check.interval.seconds", readers.whole_number(1), "How often that is looked at.", default=300
    )
    imbalance_per_broker_percentage: int = key(
        "leader.imbalance.per.broker.percentage",
        readers.whole_number(0, 100),
        "A broker gets them back when others lead more than this part of the partitions that prefer it.",
        default=10,
    )
    unclean_interval_ms: int = key(
        "unclean.leader.election.interval.ms",
        readers.whole_number(100),
        "How often partitions are looked for that nobody leads, and whose topic has come to allow unclean elections.",
        default=300_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """What the listeners take on, and whether clients can reach them."""

    request_bytes_max: int = key(
        "socket.request.max.bytes",
        readers.whole_number(1_024, INT32_MAX),
        "Largest request that is read; Kafka's is 100 MiB, which one process of ours should not hold many times over.",
        default=16 * MIB,
    )
    connections_max: int = key(
        "max.connections",
        readers.whole_number(1, INT32_MAX),
        "Connections that the PLAINTEXT listener has at a time; one more is closed at once.",
        default=INT32_MAX,
    )
    connection_idle_ms_max: int = key(
        "connections.max.idle.ms",
        readers.whole_number(1_000),
        "A connection of the PLAINTEXT listener that nobody uses for so long is closed.",
        default=600_000,
    )
    advertised_check_enabled: bool = key(
        "advertised.listeners.check.enable",
        readers.boolean,
        "Ours: a node that does not find itself at an address that it advertises does not start.",
        default=True,
    )
