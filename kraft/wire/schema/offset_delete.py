"""OffsetDelete: deletes a group's committed offsets of a topic (KIP-496)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: Array[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, key=47, versions="0"):
    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: Array[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, key=47, versions="0"):
    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: Array[OffsetDeleteResponseTopic]
