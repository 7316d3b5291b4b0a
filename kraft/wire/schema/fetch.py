"""Fetch: record batches from a leader, for consumers and for followers.

Incremental sessions are KIP-227 (version 7), the nearest replica KIP-392 (11), divergence KIP-595 (12), topic ids
KIP-516 (13), the new leader's address KIP-951 (16).
"""

from typing import Final

from kraft.wire.declaration import (
    ZERO_UUID,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    Uuid,
    field,
)

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
"""Replica ids of clients: a consumer, and a tool that compares replicas, which any replica answers."""


class ReplicaState(Struct):
    replica_id: Int32 = CONSUMER
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = field("9+", default=-1)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field("17+", default=ZERO_UUID, tag=0)
    high_watermark: Int64 = field("18+", default=0x7FFFFFFFFFFFFFFF, tag=1)


class FetchTopic(Struct):
    topic: String = field("4-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: Array[FetchPartition]


class ForgottenTopic(Struct):
    topic: String = field("7-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: Array[Int32]


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    cluster_id: String | None = field("12+", default=None, tag=0)
    replica_id: Int32 = field("4-14", default=-1)
    replica_state: ReplicaState = field("15+", default=ReplicaState(), tag=1)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = field("7+", default=0)
    session_epoch: Int32 = field("7+", default=-1)
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic] = field("7+", default=())
    rack_id: String = field("11+", default="")


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = field("12+", default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = field("12+", default=SnapshotId(), tag=2)
    aborted_transactions: Array[AbortedTransaction] | None
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: Records | None


class FetchableTopicResponse(Struct):
    topic: String = field("4-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: Array[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("7+", default=0)
    session_id: Int32 = field("7+", default=0)
    responses: Array[FetchableTopicResponse]
    node_endpoints: Array[NodeEndpoint] = field("16+", default=(), tag=0)
