"""Settings of the coordinators of consumer groups, and of the topic `__consumer_offsets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.classic.settings import SIZE_MAX
from kraft.coordinator.groups.settings import MigrationPolicy
from kraft.log.format.compression import Codec
from kraft.log.topic_config import SEGMENT_BYTES_MAX
from kraft.metadata.group_configs import Bounded, GroupDefaults
from kraft.model.config_types import INT32_MAX, INT64_MAX
from kraft.server.config import readers
from kraft.server.config.declaration import key
from kraft.server.config.readers import MIB

OFFSETS_REPLICATION_FACTOR: Final = "offsets.topic.replication.factor"
OFFSETS_REPLICATION_FACTOR_DEFAULT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsTopicSettings:
    """Settings of the topic that holds consumer groups and their offsets, and of what is written to it."""

    partitions: int = key(
        "offsets.topic.num.partitions",
        readers.whole_number(1, 10_000),
        "Partition count of __consumer_offsets, used when the topic is created.",
        default=50,
    )
    replication_factor: int = key(
        OFFSETS_REPLICATION_FACTOR,
        readers.whole_number(1, 32_767),
        "Replication factor of __consumer_offsets, used when the topic is created; not created with fewer brokers."
        " A node that is the whole cluster uses 1 if the key is not set.",
        default=OFFSETS_REPLICATION_FACTOR_DEFAULT,
    )
    segment_bytes: int = key(
        "offsets.topic.segment.bytes",
        readers.whole_number(1_024, SEGMENT_BYTES_MAX),
        "Segment size of __consumer_offsets, used when the topic is created: small segments are compacted sooner.",
        default=100 * MIB,
    )
    codec: int = key(
        "offsets.topic.compression.codec",
        readers.whole_number(min(Codec), max(Codec)),
        "Compression of the records of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        default=int(Codec.NONE),
    )
    metadata_length_max: int = key(
        "offset.metadata.max.bytes",
        readers.whole_number(0),
        "Longest text that a client may commit with an offset.",
        default=4_096,
    )
    load_bytes_max: int = key(
        "offsets.load.buffer.size",
        readers.whole_number(1),
        "Bytes read at a time when a coordinator loads its partition of __consumer_offsets. Kafka's default is 5 MiB.",
        default=MIB,
    )
    commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms",
        readers.whole_number(1),
        "Time in which the replicas have to confirm a write of a coordinator.",
        default=5_000,
    )
    retention_minutes: int = key(
        "offsets.retention.minutes",
        readers.whole_number(1),
        "Time after which committed offsets expire, counted from when the group has no members, or no member subscribes"
        " to the topic.",
        default=7 * 24 * 60,
    )
    retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms",
        readers.whole_number(1, INT64_MAX),
        "Interval of checks for expired offsets.",
        default=600_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupSettings:
    """Settings of groups whose members join with JoinGroup."""

    session_timeout_min_ms: int = key(
        "group.min.session.timeout.ms",
        readers.whole_number(0),
        "Shortest session timeout that a member of a classic group may ask for.",
        default=6_000,
    )
    session_timeout_max_ms: int = key(
        "group.max.session.timeout.ms",
        readers.whole_number(1),
        "Longest session timeout that a member of a classic group may ask for.",
        default=1_800_000,
    )
    initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms",
        readers.whole_number(0),
        "Time that the first rebalance of an empty classic group waits for more members.",
        default=3_000,
    )
    members_max: int = key(
        "group.max.size",
        readers.whole_number(1),
        "Most members of a classic group. A rebalance of more holds up everything else on its broker: about 10 ms for"
        " each 1,000. Kafka's default is no limit.",
        default=SIZE_MAX,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Settings of groups of the consumer protocol (KIP-848)."""

    session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms",
        readers.whole_number(1),
        "Time without a heartbeat after which a member is removed from a group of the consumer protocol.",
        default=45_000,
    )
    session_timeout_min_ms: int = key(
        "group.consumer.min.session.timeout.ms",
        readers.whole_number(1),
        "Shortest session timeout that a group may have.",
        default=45_000,
    )
    session_timeout_max_ms: int = key(
        "group.consumer.max.session.timeout.ms",
        readers.whole_number(1),
        "Longest session timeout that a group may have.",
        default=60_000,
    )
    heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms",
        readers.whole_number(1),
        "Interval of the heartbeats of members of a group of the consumer protocol.",
        default=5_000,
    )
    heartbeat_interval_min_ms: int = key(
        "group.consumer.min.heartbeat.interval.ms",
        readers.whole_number(1),
        "Shortest heartbeat interval that a group may have.",
        default=5_000,
    )
    heartbeat_interval_max_ms: int = key(
        "group.consumer.max.heartbeat.interval.ms",
        readers.whole_number(1),
        "Longest heartbeat interval that a group may have.",
        default=15_000,
    )
    members_max: int = key(
        "group.consumer.max.size",
        readers.whole_number(1),
        "Most members of a group of the consumer protocol.",
        default=INT32_MAX,
    )
    assignors: tuple[str, ...] = key(
        "group.consumer.assignors",
        readers.some_of(*ASSIGNORS),
        "Assignors of groups of the consumer protocol; the first one is used if no member asks for another.",
        default=tuple(ASSIGNORS),
    )
    assignment_interval_ms: int = key(
        "group.consumer.assignment.interval.ms",
        readers.whole_number(0),
        "Time between two target assignments of a group of the consumer protocol; changes in between share the next.",
        default=1_000,
    )
    assignment_interval_min_ms: int = key(
        "group.consumer.min.assignment.interval.ms",
        readers.whole_number(0),
        "Shortest assignment interval that a group may have.",
        default=0,
    )
    assignment_interval_max_ms: int = key(
        "group.consumer.max.assignment.interval.ms",
        readers.whole_number(0),
        "Longest assignment interval that a group may have.",
        default=15_000,
    )
    offloads_assignor: bool = key(
        "group.consumer.assignor.offload.enable",
        readers.boolean,
        "Whether target assignments of large groups are computed in a thread, while the coordinator goes on.",
        default=True,
    )
    migration_policy: MigrationPolicy = key(
        "group.consumer.migration.policy",
        readers.migration_policy,
        "Whether a group with members may change its protocol: upgrade, from classic to consumer, downgrade, back to"
        " classic, bidirectional or disabled.",
        default=MigrationPolicy.BIDIRECTIONAL,
    )

    @property
    def defaults(self) -> GroupDefaults:
        """Return what applies to a group's own configs."""
        return GroupDefaults(
            session_timeout_ms=Bounded(
                self.session_timeout_ms, self.session_timeout_min_ms, self.session_timeout_max_ms
            ),
            heartbeat_interval_ms=Bounded(
                self.heartbeat_interval_ms, self.heartbeat_interval_min_ms, self.heartbeat_interval_max_ms
            ),
            assignment_interval_ms=Bounded(
                self.assignment_interval_ms, self.assignment_interval_min_ms, self.assignment_interval_max_ms
            ),
        )
