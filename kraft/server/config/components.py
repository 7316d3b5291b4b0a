"""Components of a node's configuration: a frozen dataclass each, every field declared with its key.

Names of keys and defaults are Kafka's, except where the purpose says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kraft.log.topic_config import TopicConfig
from kraft.model.config_keys import Required, boolean, key, one_of, whole_number
from kraft.model.config_types import INT32_MAX, INT64_MAX, IntegerBetween
from kraft.server.config import readers
from kraft.server.config.readers import MIB
from kraft.server.config.values import UNLIMITED_BYTES_PER_SECOND, Durability, Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Settings of the metadata quorum, for its voters and for the brokers that follow it."""

    voters: tuple[Voter, ...] = key(
        "controller.quorum.voters",
        readers.voters,
        "Controllers of the cluster, each as id@host:port.",
        default=Required("1@localhost:9093"),
    )
    election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms",
        whole_number(100, 60_000),
        "Time after which a candidate that was not elected starts another election; random between half of it and all.",
        default=1_000,
    )
    fetch_timeout_ms: int | None = key(
        "controller.quorum.fetch.timeout.ms",
        whole_number(100, 60_000),
        "Time without a leader after which a controller starts an election (random between half of it and all), and"
        " time without a majority after which a leader steps down. By default controller.quorum.election.timeout.ms.",
        default=None,
    )
    election_backoff_ms_max: int | None = key(
        "controller.quorum.election.backoff.max.ms",
        whole_number(1, 60_000),
        "Longest pause before a controller without a majority asks for votes again. By default, and at most, a quarter"
        " of controller.quorum.election.timeout.ms.",
        default=None,
    )
    request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms",
        whole_number(100, 600_000),
        "Time without a message from a controller after which the connection is opened again. Kafka's default is 2000.",
        default=1_000,
    )
    append_linger_ms: int = key(
        "controller.quorum.append.linger.ms",
        whole_number(0, 30_000),
        "Time that the active controller waits for more metadata changes per sync. Kafka's default is 25.",
        default=0,
    )
    snapshot_entry_bytes_between: int = key(
        "metadata.log.max.record.bytes.between.snapshots",
        whole_number(1, INT64_MAX),
        "Bytes of new entries after which a metadata snapshot is written.",
        default=20 * 1024 * 1024,
    )
    snapshot_interval_ms: int = key(
        "metadata.log.max.snapshot.interval.ms",
        whole_number(0, INT64_MAX),
        "Time after which a metadata snapshot is written if there are new entries; 0 means never.",
        default=3_600_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaults:
    """Defaults of new topics."""

    partitions: int = key(
        "num.partitions", whole_number(1, 10_000), "Default partition count for new topics.", default=1
    )
    replication_factor: int = key(
        "default.replication.factor",
        whole_number(1, 32_767),
        "Default replication factor for new topics.",
        default=1,
    )
    configs: TopicConfig
    """Configs of topics that do not set their own, from the brokers' keys for topic configs."""
    auto_create_enabled: bool = key(
        "auto.create.topics.enable",
        boolean,
        "Whether a topic is created when a client first uses it.",
        default=True,
    )
    deletion_enabled: bool = key("delete.topic.enable", boolean, "Whether topics can be deleted.", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Settings of partition logs of all topics."""

    durability: Durability = key(
        "log.durability",
        readers.durability,
        "What acks=all waits for on every in-sync replica: fsync or, as in Kafka, page-cache. Kraft only.",
        default=Durability.FSYNC,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMaintenance:
    """Background work of a broker on all its logs."""

    retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms",
        whole_number(1, INT64_MAX),
        "Interval of retention checks.",
        default=300_000,
        older_name="retention.check.interval.ms",
    )
    flush_check_interval_ms: int = key(
        "log.flush.scheduler.interval.ms",
        whole_number(1, INT64_MAX),
        "Interval of checks of flush.ms. Kafka's default is never, which disables flush.ms.",
        default=1_000,
    )
    cleaner_enabled: bool = key(
        "log.cleaner.enable", boolean, "Whether logs with cleanup.policy=compact are compacted.", default=True
    )
    cleaner_threads: int = key(
        "log.cleaner.threads", whole_number(1, 64), "Number of logs compacted at a time.", default=1
    )
    cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms",
        whole_number(0, INT64_MAX),
        "Pause of the cleaner when no log needs compaction.",
        default=15_000,
        dynamic=IntegerBetween(least=0, most=INT64_MAX),
    )
    cleaner_dedupe_buffer_bytes: int = key(
        "log.cleaner.dedupe.buffer.size",
        whole_number(MIB, INT64_MAX),
        "Bytes of memory for the keys of a compaction, for all cleaner threads together; with more keys a log takes "
        "more passes. Kafka's default is 128 MiB.",
        default=32 * MIB,
    )
    cleaner_io_bytes_per_second_max: int = key(
        "log.cleaner.io.max.bytes.per.second",
        readers.bytes_per_second,
        "Bytes per second that the cleaner may read and write in total.",
        default=UNLIMITED_BYTES_PER_SECOND,
        dynamic=IntegerBetween(least=1, most=INT64_MAX),
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms",
        whole_number(1),
        "Time after the last batch of a producer when its state expires; its next batch is not checked for duplicates.",
        default=86_400_000,
    )
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms",
        whole_number(1),
        "Interval of checks for expired producers.",
        default=600_000,
    )
    scrub_interval_ms: int = key(
        "log.scrub.interval.ms",
        whole_number(0, INT64_MAX),
        "Time in which the scrub reads all logs once, to find corruption while other replicas are sound; 0 means never."
        " Kraft only.",
        default=7 * 86_400_000,
    )
    scrub_io_bytes_per_second_max: int = key(
        "log.scrub.io.max.bytes.per.second",
        readers.bytes_per_second,
        "Bytes per second that the scrub may read; the default reads 4.6 TiB in seven days. Kraft only.",
        default=8 * MIB,
        dynamic=IntegerBetween(least=1, most=INT64_MAX),
    )
    free_space_bytes_min: int = key(
        "log.free.space.min.bytes",
        whole_number(0, INT64_MAX),
        "Free bytes on the disk of a log below which producers are refused; 0 means never. Kraft only.",
        default=64 * MIB,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """Log output of the node: its level, and a file in addition to standard error."""

    level: str = key(
        "log.level",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "Lowest level of the node's log events. Kraft only.",
        default="INFO",
    )
    file: Path | None = key(
        "log.file",
        readers.file,
        "File for the node's log events as JSON lines, in addition to standard error; one per node. Kraft only.",
        default=None,
    )
    file_bytes_max: int = key(
        "log.file.max.bytes",
        whole_number(64 * 1024, INT64_MAX),
        "Size at which log.file is renamed (suffix .1) and a new one begins. Kraft only.",
        default=64 * MIB,
    )
    file_backups_max: int = key(
        "log.file.max.backups",
        whole_number(1, 1_000),
        "Number of renamed log files to keep. Kraft only.",
        default=10,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """Settings of this broker as a follower, and as a leader of followers."""

    lag_time_max_ms: int = key(
        "replica.lag.time.max.ms",
        whole_number(100),
        "Time without being caught up after which a follower leaves the ISR.",
        default=30_000,
    )
    fetch_bytes_max: int = key(
        "replica.fetch.max.bytes",
        whole_number(1_024),
        "Most bytes of one partition in a follower's fetch.",
        default=MIB,
    )
    fetch_response_bytes_max: int = key(
        "replica.fetch.response.max.bytes",
        whole_number(1_024),
        "Most bytes of all partitions in a follower's fetch.",
        default=10 * MIB,
    )
    fetch_bytes_min: int = key(
        "replica.fetch.min.bytes",
        whole_number(1),
        "Bytes that a leader waits for before it answers a follower.",
        default=1,
    )
    fetch_wait_max_ms: int = key(
        "replica.fetch.wait.max.ms",
        whole_number(1),
        "Longest time that a leader waits for replica.fetch.min.bytes.",
        default=500,
    )
    high_watermark_checkpoint_interval_ms: int = key(
        "replica.high.watermark.checkpoint.interval.ms",
        whole_number(100),
        "Interval at which high watermarks are written to disk.",
        default=5_000,
    )
    leader_throttled_rate: int = key(
        "leader.replication.throttled.rate",
        whole_number(0, INT64_MAX),
        "Bytes per second that this broker sends at most to followers out of sync, of the replicas that topics name in"
        " leader.replication.throttled.replicas; others are not limited. 0 stops them.",
        default=UNLIMITED_BYTES_PER_SECOND,
        dynamic=IntegerBetween(least=0, most=INT64_MAX),
    )
    follower_throttled_rate: int = key(
        "follower.replication.throttled.rate",
        whole_number(0, INT64_MAX),
        "Bytes per second that this broker fetches at most while it is out of sync, of the replicas that topics name in"
        " follower.replication.throttled.replicas; others are not limited. 0 stops them.",
        default=UNLIMITED_BYTES_PER_SECOND,
        dynamic=IntegerBetween(least=0, most=INT64_MAX),
    )
    directory_move_rate: int = key(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        whole_number(0, INT64_MAX),
        "Bytes per second that this broker copies at most for moves of replicas between its log directories. 0 stops"
        " them.",
        default=UNLIMITED_BYTES_PER_SECOND,
        dynamic=IntegerBetween(least=0, most=INT64_MAX),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTimings:
    """Heartbeats, session and shutdown of a broker."""

    heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms",
        whole_number(10),
        "Interval of a broker's heartbeats to the active controller. Kafka's default is 2000.",
        default=500,
    )
    session_timeout_ms: int = key(
        "broker.session.timeout.ms",
        whole_number(100),
        "Time without a heartbeat after which a broker is fenced. Kafka's default is 9000.",
        default=3_000,
    )
    controlled_shutdown_enabled: bool = key(
        "controlled.shutdown.enable",
        boolean,
        "Whether a broker moves its leaderships away before it stops.",
        default=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElections:
    """Elections that the active controller starts by itself."""

    rebalance_enabled: bool = key(
        "auto.leader.rebalance.enable",
        boolean,
        "Whether partitions are moved back to their preferred leaders.",
        default=True,
    )
    imbalance_check_interval_s: int = key(
        "leader.imbalance.check.interval.seconds",
        whole_number(1),
        "Interval of checks for auto.leader.rebalance.enable.",
        default=300,
    )
    imbalance_per_broker_percentage: int = key(
        "leader.imbalance.per.broker.percentage",
        whole_number(0, 100),
        "Percentage of a broker's preferred partitions led by others, above which they are moved back.",
        default=10,
    )
    unclean_interval_ms: int = key(
        "unclean.leader.election.interval.ms",
        whole_number(100),
        "Interval of checks for leaderless partitions whose topic allows unclean elections.",
        default=300_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Limits of the listeners, and the check of their advertised addresses."""

    request_bytes_max: int = key(
        "socket.request.max.bytes",
        whole_number(1_024, INT32_MAX),
        "Largest request, in bytes. Kafka's default is 100 MiB; a node buffers several requests in one process.",
        default=16 * MIB,
    )
    connections_max: int = key(
        "max.connections",
        whole_number(1, INT32_MAX),
        "Most open connections of the Kafka listeners together; further ones are closed at once.",
        default=INT32_MAX,
    )
    connection_idle_ms_max: int = key(
        "connections.max.idle.ms",
        whole_number(1_000),
        "Time without requests after which a connection of a Kafka listener is closed.",
        default=600_000,
    )
    slow_request_ms_min: int = key(
        "slow.request.log.ms",
        whole_number(0),
        "Time from which a request of a Kafka listener is logged as slow, in 20 lines a minute at most. 0: none is."
        " Waits of a fetch for records, or of a member for the others of its group, do not count. Kraft only.",
        default=0,
    )
    advertised_check_enabled: bool = key(
        "advertised.listeners.check.enable",
        boolean,
        "Whether a node refuses to start if it cannot reach itself at its advertised addresses. Kraft only.",
        default=True,
    )
