"""TxnOffsetCommit: offsets of a group that are committed with a transaction (KIP-98, KIP-447)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("2+", default=-1)
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct):
    name: String
    partitions: Array[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, key=28, versions="0-5", flexible="3+"):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field("3+", default=-1)
    member_id: String = field("3+", default="")
    group_instance_id: String | None = field("3+", default=None)
    topics: Array[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    name: String
    partitions: Array[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    topics: Array[TxnOffsetCommitResponseTopic]
