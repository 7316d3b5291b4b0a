"""Every key that a node's file may hold and that has an effect: one row a key.

The names are Kafka's, and so are the defaults, except where the row says otherwise. A key without an effect
stands in `config_unbuilt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.server.config_readers import (
    INT32_MAX,
    MIB,
    Reader,
    boolean,
    cluster_id,
    directory,
    durability,
    listeners,
    node_id,
    one_of,
    only,
    plain_text,
    roles,
    voters,
    whole_number,
)
from kraft.server.config_values import CONTROLLER, GRPC, Durability


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


KEYS: Final = (
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
    Key("log.dirs", "log_dir", directory, REQUIRED, "The directory of the partition logs.", older_name="log.dir"),
    Key("metadata.log.dir", "metadata_log_dir", directory, None, "The directory of the metadata log, if another."),
    # --- the quorum ------------------------------------------------------------------------------------------
    Key("controller.quorum.voters", "quorum.voters", voters, REQUIRED, "id@host:port of every controller."),
    Key(
        "controller.quorum.election.timeout.ms",
        "quorum.election_timeout_ms",
        whole_number(100, 60_000),
        1_000,
        "A controller that hears no leader for half of it up to all of it stands for election.",
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
    Key(
        "min.insync.replicas",
        "topics.min_insync_replicas",
        whole_number(1, 32_767),
        1,
        "Replicas that must hold a record before acks=all is answered.",
    ),
    Key("auto.create.topics.enable", "topics.auto_create_enabled", boolean, True, "Created when first asked for."),
    Key("delete.topic.enable", "topics.deletion_enabled", boolean, True, "Whether topics can be deleted."),
    # --- partition logs --------------------------------------------------------------------------------------
    Key(
        "message.max.bytes",
        "log.message_bytes_max",
        whole_number(1_024, 1_024 * MIB),
        1_048_588,
        "Largest record batch that is taken, as the producer compressed it.",
    ),
    Key(
        "log.segment.bytes", "log.segment_bytes", whole_number(1_024), 1_024 * MIB, "A segment is closed at this size."
    ),
    Key(
        "log.index.interval.bytes",
        "log.index_interval_bytes",
        whole_number(1),
        4_096,
        "From one index entry to the next.",
    ),
    Key(
        "log.durability",
        "log.durability",
        durability,
        Durability.FSYNC,
        "Ours. fsync: acks=all is answered when every in-sync replica has it on disk; page-cache: in memory, as Kafka.",
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
    # --- limits, and what it says about itself ---------------------------------------------------------------
    Key(
        "socket.request.max.bytes",
        "network.request_bytes_max",
        whole_number(1_024, INT32_MAX),
        16 * MIB,
        "Largest request that is read; Kafka's is 100 MiB, which one process of ours should not hold many times over.",
    ),
    Key(
        "log.level",
        "log_level",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        "INFO",
        "Ours: of the node's own messages.",
    ),
)

BY_NAME: Final = {key.name: key for key in KEYS} | {key.older_name: key for key in KEYS if key.older_name}
