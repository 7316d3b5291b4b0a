"""Every key that a node's file may hold and that has an effect: one row a key.

The names are Kafka's, and so are the defaults, except where the row says otherwise. The keys that only give topics
their defaults come from the table of topic configs. A key without an effect stands in `config_unbuilt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from kraft.metadata.configs import SERVER_KEYS, ConfigKey, ServerKey
from kraft.server.config.readers import (
    INT32_MAX,
    INT64_MAX,
    MIB,
    Reader,
    boolean,
    bytes_per_second,
    cluster_id,
    directories,
    directory,
    durability,
    file,
    listeners,
    node_id,
    one_of,
    only,
    plain_text,
    roles,
    security_protocols,
    voters,
    whole_number,
)
from kraft.server.config.values import CONTROLLER, GRPC, UNLIMITED_BYTES_PER_SECOND, Durability


class Required:
    """Stands where a key has no default: the file must say it."""


REQUIRED: Final = Required()


@dataclass(frozen=True, slots=True)
class Key:
    """`field` is the place in NodeConfig, with a dot into a component; None where the reader's check is all."""

    name: str
    field: str | None
    read: Reader[object]
    default: object
    purpose: str
    older_name: str | None = None
    """Kafka's earlier name, taken with a warning."""


_PEM_ONLY: Final = "convert the store, for instance with openssl pkcs12 -nodes"

_OWN_KEYS: Final = (
    # --- who it is -------------------------------------------------------------------------------------------
    Key("process.roles", "roles", roles, REQUIRED, "broker, controller, or broker,controller"),
    Key("node.id", "node_id", node_id, REQUIRED, "The node's own number in the cluster.", older_name="broker.id"),
    Key(
        "cluster.id", "cluster_id", cluster_id, None, "The cluster that the node belongs to; ours, for the formatting."
    ),
    Key("broker.rack", "rack", plain_text, "", "Replicas of a partition are spread over racks."),
    # --- where it is -----------------------------------------------------------------------------------------
    Key("listeners", "listeners", listeners, REQUIRED, "NAME://host:port of every door: PLAINTEXT, GRPC, CONTROLLER."),
    Key("advertised.listeners", "advertised_listeners", listeners, (), "Where clients reach the doors, if elsewhere."),
    Key(
        "advertised.listeners.check.enable",
        "network.advertised_check_enabled",
        boolean,
        True,
        "Ours: a node that does not find itself at an address that it advertises does not start.",
    ),
    Key(
        "controller.listener.names",
        None,
        only(CONTROLLER, "controllers talk on the listener of that name"),
        CONTROLLER,
        "Accepted for Kafka's files.",
    ),
    Key(
        "inter.broker.listener.name",
        None,
        only(GRPC, "brokers talk to each other on the listener of that name"),
        GRPC,
        "Accepted for Kafka's files.",
    ),
    Key(
        "log.dirs",
        "log_dirs",
        directories,
        REQUIRED,
        "The directories of the partition logs, one a disk.",
        older_name="log.dir",
    ),
    Key(
        "metadata.log.dir",
        "metadata_log_dir",
        directory,
        None,
        "The directory of the metadata log, if not the first of log.dirs.",
    ),
    # --- by what nodes know each other -----------------------------------------------------------------------
    Key(
        "cluster.secret.file",
        "security.secret_file",
        file,
        None,
        "Ours: a file with a secret that every node of the cluster has, and nobody else.",
    ),
    Key(
        "listener.security.protocol.map",
        "security.protocols",
        security_protocols,
        (),
        "NAME:PROTOCOL of listeners; CONTROLLER:SSL is TLS with certificates on both sides.",
    ),
    Key(
        "ssl.keystore.location",
        "security.keystore_file",
        file,
        None,
        "A PEM file with the node's private key, not encrypted, and its certificates.",
    ),
    Key(
        "ssl.truststore.location",
        "security.truststore_file",
        file,
        None,
        "A PEM file with the certificates of those who certify the nodes of the cluster, and only those.",
    ),
    Key("ssl.keystore.type", None, only("PEM", _PEM_ONLY), "PEM", "Kafka's default is JKS."),
    Key("ssl.truststore.type", None, only("PEM", _PEM_ONLY), "PEM", "Kafka's default is JKS."),
    Key(
        "ssl.client.auth",
        None,
        only("required", "nodes always show their certificates"),
        "required",
        "Accepted for Kafka's files.",
    ),
    Key(
        "ssl.endpoint.identification.algorithm",
        None,
        only("https", "a node's certificate always has to name its host"),
        "https",
        "Accepted for Kafka's files.",
    ),
    # --- the quorum ------------------------------------------------------------------------------------------
    Key("controller.quorum.voters", "quorum.voters", voters, REQUIRED, "id@host:port of every controller."),
    Key(
        "controller.quorum.election.timeout.ms",
        "quorum.election_timeout_ms",
        whole_number(100, 60_000),
        1_000,
        "A controller that stands for election and is not elected stands again after half of it up to all of it.",
    ),
    Key(
        "controller.quorum.fetch.timeout.ms",
        "quorum.fetch_timeout_ms",
        whole_number(100, 60_000),
        None,
        "A controller that hears no leader for half of it up to all of it stands for election, and a leader that hears"
        " no majority for all of it steps down. Without it, as controller.quorum.election.timeout.ms.",
    ),
    Key(
        "controller.quorum.election.backoff.max.ms",
        "quorum.election_backoff_ms_max",
        whole_number(1, 60_000),
        None,
        "Longest pause before a controller that no majority would vote for asks again. Without it, and at most, a"
        " quarter of controller.quorum.election.timeout.ms.",
    ),
    Key(
        "controller.quorum.request.timeout.ms",
        "quorum.request_timeout_ms",
        whole_number(100, 600_000),
        1_000,
        "A controller that gives no sign of life for so long is connected to anew. Kafka's default is 2000.",
    ),
    Key(
        "controller.quorum.append.linger.ms",
        "quorum.append_linger_ms",
        whole_number(0, 30_000),
        0,
        "How long the active controller waits for more metadata changes that share a sync. Kafka's default is 25.",
    ),
    Key(
        "metadata.log.max.record.bytes.between.snapshots",
        "quorum.snapshot_entry_bytes_between",
        whole_number(1, INT64_MAX),
        20 * 1024 * 1024,
        "A snapshot of the metadata is written after that many bytes of new entries.",
    ),
    Key(
        "metadata.log.max.snapshot.interval.ms",
        "quorum.snapshot_interval_ms",
        whole_number(0, INT64_MAX),
        3_600_000,
        "And after that time, if anything is new; 0 for never.",
    ),
    # --- topics ----------------------------------------------------------------------------------------------
    Key("num.partitions", "topics.partitions", whole_number(1, 10_000), 1, "Of a topic that does not say how many."),
    Key(
        "default.replication.factor",
        "topics.replication_factor",
        whole_number(1, 32_767),
        1,
        "Of a topic that does not say how many.",
    ),
    Key("auto.create.topics.enable", "topics.auto_create_enabled", boolean, True, "Created when first asked for."),
    Key("delete.topic.enable", "topics.deletion_enabled", boolean, True, "Whether topics can be deleted."),
    # --- partition logs --------------------------------------------------------------------------------------
    Key(
        "log.durability",
        "log.durability",
        durability,
        Durability.FSYNC,
        "Ours. fsync: acks=all is answered when every in-sync replica has it on disk; page-cache: in memory, as Kafka.",
    ),
    # --- what a broker does about its logs meanwhile ---------------------------------------------------------
    Key(
        "log.retention.check.interval.ms",
        "log_maintenance.retention_check_interval_ms",
        whole_number(1, INT64_MAX),
        300_000,
        "How often logs are looked at for what retention lets go.",
        older_name="retention.check.interval.ms",
    ),
    Key(
        "log.flush.scheduler.interval.ms",
        "log_maintenance.flush_check_interval_ms",
        whole_number(1, INT64_MAX),
        1_000,
        "How often logs are looked at for flush.ms. By Kafka's default they never are, so that flush.ms does nothing.",
    ),
    Key(
        "log.cleaner.enable",
        "log_maintenance.cleaner_enabled",
        boolean,
        True,
        "Whether logs with cleanup.policy=compact are compacted.",
    ),
    Key("log.cleaner.threads", "log_maintenance.cleaner_threads", whole_number(1, 64), 1, "Compacting at a time."),
    Key(
        "log.cleaner.backoff.ms",
        "log_maintenance.cleaner_backoff_ms",
        whole_number(0, INT64_MAX),
        15_000,
        "The cleaner's pause when no log needs it.",
    ),
    Key(
        "log.cleaner.dedupe.buffer.size",
        "log_maintenance.cleaner_dedupe_buffer_bytes",
        whole_number(MIB, INT64_MAX),
        32 * MIB,
        "For the keys that are being compacted, all threads together. Kafka's is 128 MiB; a node of ours is one of "
        "several processes on its machine, and more keys take another pass, not more memory.",
    ),
    Key(
        "log.cleaner.io.max.bytes.per.second",
        "log_maintenance.cleaner_io_bytes_per_second_max",
        bytes_per_second,
        UNLIMITED_BYTES_PER_SECOND,
        "Read and written by the cleaner, together.",
    ),
    Key(
        "producer.id.expiration.ms",
        "log_maintenance.producer_id_expiration_ms",
        whole_number(1),
        86_400_000,
        "A producer that is silent for this long is forgotten, and its next batch not checked against the last.",
    ),
    Key(
        "producer.id.expiration.check.interval.ms",
        "log_maintenance.producer_id_expiration_check_interval_ms",
        whole_number(1),
        600_000,
        "How often silent producers are looked for.",
    ),
    Key(
        "log.scrub.interval.ms",
        "log_maintenance.scrub_interval_ms",
        whole_number(0, INT64_MAX),
        7 * 86_400_000,
        "Ours: in this time all logs are read once, so that rot is found while other replicas are whole; 0: never.",
    ),
    Key(
        "log.scrub.io.max.bytes.per.second",
        "log_maintenance.scrub_io_bytes_per_second_max",
        bytes_per_second,
        8 * MIB,
        "Ours: read by the scrub, which at this speed passes 4.6 TiB in its seven days and leaves the disk to others.",
    ),
    Key(
        "log.free.space.min.bytes",
        "log_maintenance.free_space_bytes_min",
        whole_number(0, INT64_MAX),
        64 * MIB,
        "Ours: with less free on the disk of a log, producers are refused until there is more again; 0: never.",
    ),
    # --- replication -----------------------------------------------------------------------------------------
    Key(
        "replica.lag.time.max.ms",
        "replication.lag_time_max_ms",
        whole_number(100),
        30_000,
        "A follower that was not caught up for this long leaves the ISR.",
    ),
    Key(
        "replica.fetch.max.bytes",
        "replication.fetch_bytes_max",
        whole_number(1_024),
        MIB,
        "Of one partition in a fetch.",
    ),
    Key(
        "replica.fetch.response.max.bytes",
        "replication.fetch_response_bytes_max",
        whole_number(1_024),
        10 * MIB,
        "Of all partitions in a fetch.",
    ),
    Key(
        "replica.fetch.min.bytes",
        "replication.fetch_bytes_min",
        whole_number(1),
        1,
        "A leader waits for so many bytes.",
    ),
    Key("replica.fetch.wait.max.ms", "replication.fetch_wait_max_ms", whole_number(1), 500, "And no longer than this."),
    Key(
        "replica.high.watermark.checkpoint.interval.ms",
        "replication.high_watermark_checkpoint_interval_ms",
        whole_number(100),
        5_000,
        "How often high watermarks are written to disk.",
    ),
    # --- a broker's life -------------------------------------------------------------------------------------
    Key(
        "broker.heartbeat.interval.ms",
        "broker.heartbeat_interval_ms",
        whole_number(10),
        500,
        "Kafka's is 2000: a dead broker is noticed sooner here.",
    ),
    Key(
        "broker.session.timeout.ms",
        "broker.session_timeout_ms",
        whole_number(100),
        3_000,
        "Kafka's is 9000: a dead broker's partitions find a new leader sooner here.",
    ),
    Key(
        "controlled.shutdown.enable", "broker.controlled_shutdown_enabled", boolean, True, "Leaders move before a stop."
    ),
    # --- elections that a controller holds unasked -----------------------------------------------------------
    Key(
        "auto.leader.rebalance.enable",
        "elections.rebalance_enabled",
        boolean,
        True,
        "Whether preferred leaders get back what others lead in their place.",
    ),
    Key(
        "leader.imbalance.check.interval.seconds",
        "elections.imbalance_check_interval_s",
        whole_number(1),
        300,
        "How often that is looked at.",
    ),
    Key(
        "leader.imbalance.per.broker.percentage",
        "elections.imbalance_per_broker_percentage",
        whole_number(0, 100),
        10,
        "A broker gets them back when others lead more than this part of the partitions that prefer it.",
    ),
    Key(
        "unclean.leader.election.interval.ms",
        "elections.unclean_interval_ms",
        whole_number(100),
        300_000,
        "How often partitions are looked for that nobody leads, and whose topic has come to allow unclean elections.",
    ),
    # --- limits, and what it says about itself ---------------------------------------------------------------
    Key(
        "socket.request.max.bytes",
        "network.request_bytes_max",
        whole_number(1_024, INT32_MAX),
        16 * MIB,
        "Largest request that is read; Kafka's is 100 MiB, which one process of ours should not hold many times over.",
    ),
    Key(
        "max.connections",
        "network.connections_max",
        whole_number(1, INT32_MAX),
        INT32_MAX,
        "Connections that the PLAINTEXT listener has at a time; one more is closed at once.",
    ),
    Key(
        "connections.max.idle.ms",
        "network.connection_idle_ms_max",
        whole_number(1_000),
        600_000,
        "A connection of the PLAINTEXT listener that nobody uses for so long is closed.",
    ),
    Key(
        "log.level",
        "log_level",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "INFO",
        "Ours: of the node's own messages.",
    ),
)


def _topic_defaults() -> Iterator[Key]:
    """A broker's keys for topics that do not set their own; `topics.configs` is made of all of them together."""
    for declared, server_key in SERVER_KEYS.values():
        name, default = declared.default_server_key()
        yield Key(
            server_key.name,
            None,
            partial(_topic_default, declared, server_key),
            default if server_key.name == name else None,
            declared.documentation,
        )


def _topic_default(declared: ConfigKey, server_key: ServerKey, text: str) -> object:
    try:
        return declared.read_server(server_key, text)
    except ValueError as error:
        raise ValueError(f"expected {error}") from None


_OWN_NAMES: Final = {key.name for key in _OWN_KEYS}

KEYS: Final = (*_OWN_KEYS, *(key for key in _topic_defaults() if key.name not in _OWN_NAMES))

BY_NAME: Final = {key.name: key for key in KEYS} | {key.older_name: key for key in KEYS if key.older_name}
