"""Metadata: the brokers, the topics, and the leader of each partition."""

from kraft.wire.declaration import ZERO_UUID, Array, Bool, Int16, Int32, Message, String, Struct, Uuid, field


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    name: String | None = field(nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    topics: Array[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: Bool = field("4+", default=True)
    include_cluster_authorized_operations: Bool = field("8-10", default=False)
    include_topic_authorized_operations: Bool = field("8+", default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field("1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = field("7+", default=-1)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Array[Int32] = field("5+", default=())


class MetadataResponseTopic(Struct):
    error_code: Int16
    name: String | None = field(nullable="12+")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    is_internal: Bool = field("1+", default=False)
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Int32 = field("8+", default=-0x80000000)
    # In no version of Kafka: over gRPC, the reason of the error.
    error_message: String = field("none", default="")


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: Int32 = field("3+", default=0)
    brokers: Array[MetadataResponseBroker]
    cluster_id: String | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Int32 = field("8-10", default=-0x80000000)
    error_code: Int16 = field("13+", default=0)
