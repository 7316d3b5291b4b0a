"""ConsumerGroupDescribe: groups of the newer protocol with their members (KIP-848)."""

from kraft.wire.declaration import Array, Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, field


class ConsumerGroupDescribeRequest(Message, key=69, versions="0-1", flexible="0+"):
    group_ids: Array[String]
    include_authorized_operations: Bool


class TopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: Array[Int32]


class Assignment(Struct):
    topic_partitions: Array[TopicPartitions]


class Member(Struct):
    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: Array[String]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = field("1+", default=-1)


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: Array[Member]
    authorized_operations: Int32 = -0x80000000


class ConsumerGroupDescribeResponse(Message, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    groups: Array[DescribedGroup]
