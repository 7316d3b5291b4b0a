"""OffsetFetch: the committed offsets of groups; many groups at once since version 8 (KIP-709)."""

from kraft.wire.declaration import ZERO_UUID, Array, Bool, Int16, Int32, Int64, Message, String, Struct, Uuid, field


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: Array[Int32]


class OffsetFetchRequestTopics(Struct):
    name: String = field("8-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partition_indexes: Array[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = field("9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    topics: Array[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Message, key=9, versions="1-10", flexible="6+"):
    group_id: String = field("1-7", default="")
    topics: Array[OffsetFetchRequestTopic] | None = field("1-7", default=None, nullable="2-7")
    groups: Array[OffsetFetchRequestGroup] = field("8+", default=())
    require_stable: Bool = field("7+", default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field("5+", default=-1)
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: Array[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    name: String = field("8-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: Array[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: Array[OffsetFetchResponseTopics]
    error_code: Int16 = 0


class OffsetFetchResponse(Message, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = field("3+", default=0)
    topics: Array[OffsetFetchResponseTopic] = field("1-7", default=())
    error_code: Int16 = field("2-7", default=0)
    groups: Array[OffsetFetchResponseGroup] = field("8+", default=())
