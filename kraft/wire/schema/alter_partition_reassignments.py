"""AlterPartitionReassignments: new brokers for a partition, or null to cancel a reassignment (KIP-455)."""

from kraft.wire.declaration import Array, Bool, Int16, Int32, Message, String, Struct, field


class ReassignablePartition(Struct):
    partition_index: Int32
    replicas: Array[Int32] | None = None


class ReassignableTopic(Struct):
    name: String
    partitions: Array[ReassignablePartition]


class AlterPartitionReassignmentsRequest(Message, key=45, versions="0-1", flexible="0+"):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field("1+", default=True)
    topics: Array[ReassignableTopic]


class ReassignablePartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None


class ReassignableTopicResponse(Struct):
    name: String
    partitions: Array[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Message, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field("1+", default=True)
    error_code: Int16
    error_message: String | None
    responses: Array[ReassignableTopicResponse]
