"""OffsetForLeaderEpoch: the end offset of an epoch in the leader's log, to find divergence (KIP-101, KIP-320)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: Array[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    replica_id: Int32 = field("3+", default=-2)
    topics: Array[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: Array[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetForLeaderTopicResult]
