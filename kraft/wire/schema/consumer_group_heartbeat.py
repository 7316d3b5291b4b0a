"""ConsumerGroupHeartbeat: the only request of a member in the newer group protocol (KIP-848)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct, Uuid, field


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: Array[Int32]
    # In no version of Kafka: in responses over gRPC, the topic's name. Empty if the topic was deleted.
    topic_name: String = field("none", default="")


class ConsumerGroupHeartbeatRequest(Message, key=68, versions="0-1", flexible="0+"):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Array[String] | None = None
    subscribed_topic_regex: String | None = field("1+", default=None)
    server_assignor: String | None = None
    topic_partitions: Array[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: Array[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
