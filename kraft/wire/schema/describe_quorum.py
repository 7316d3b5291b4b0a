"""DescribeQuorum: the voters of the metadata quorum, with their log end offsets (KIP-595, KIP-853)."""

from kraft.wire.declaration import ZERO_UUID, Array, Int16, Int32, Int64, Message, String, Struct, UInt16, Uuid, field


class RequestedPartition(Struct):
    partition_index: Int32


class RequestedTopic(Struct):
    topic_name: String
    partitions: Array[RequestedPartition]


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    topics: Array[RequestedTopic]


class ReplicaState(Struct):
    replica_id: Int32
    replica_directory_id: Uuid = field("2+", default=ZERO_UUID)
    log_end_offset: Int64
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    last_caught_up_timestamp: Int64 = field("1+", default=-1)


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = field("2+", default="")
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: Array[ReplicaState]
    observers: Array[ReplicaState]


class TopicData(Struct):
    topic_name: String
    partitions: Array[PartitionData]


class Listener(Struct):
    name: String
    host: String
    port: UInt16


class Node(Struct):
    node_id: Int32
    listeners: Array[Listener]


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    error_code: Int16
    error_message: String | None = field("2+", default="")
    topics: Array[TopicData]
    nodes: Array[Node] = field("2+", default=())
