"""ListOffsets: the first offset at or after a timestamp, or the offset for a special timestamp.

Special timestamps: -1 end of the log, -2 its start, -3 the record with the largest timestamp (KIP-734), -4 start of the
log on local disk (KIP-405), -5 end of the tiered log (KIP-1005).
"""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Int64, Message, String, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = field("4+", default=-1)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: String
    partitions: Array[ListOffsetsPartition]


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
    replica_id: Int32
    isolation_level: Int8 = field("2+", default=0)
    topics: Array[ListOffsetsTopic]
    timeout_ms: Int32 = field("10+", default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: Array[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = field("2+", default=0)
    topics: Array[ListOffsetsTopicResponse]
