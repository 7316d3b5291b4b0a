"""CreateTopics: creates topics; the controller or the request places their replicas."""

from kraft.wire.declaration import ZERO_UUID, Array, Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32
    broker_ids: Array[Int32]


class CreatableTopicConfig(Struct):
    name: String
    value: String | None


class CreatableTopic(Struct):
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: Array[CreatableReplicaAssignment]
    configs: Array[CreatableTopicConfig]


class CreateTopicsRequest(Message, key=19, versions="2-7", flexible="5+"):
    topics: Array[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


class CreatableTopicResult(Struct):
    name: String
    topic_id: Uuid = field("7+", default=ZERO_UUID)
    error_code: Int16
    error_message: String | None
    topic_config_error_code: Int16 = field("5+", default=0, tag=0)
    num_partitions: Int32 = field("5+", default=-1)
    replication_factor: Int16 = field("5+", default=-1)
    configs: Array[CreatableTopicConfigs] | None = field("5+", default=None)


class CreateTopicsResponse(Message, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Int32 = 0
    topics: Array[CreatableTopicResult]
