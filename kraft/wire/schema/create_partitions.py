"""CreatePartitions: raises the number of a topic's partitions (KIP-195)."""

from kraft.wire.declaration import Array, Bool, Int16, Int32, Message, String, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: Array[Int32]


class CreatePartitionsTopic(Struct):
    name: String
    count: Int32
    assignments: Array[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(Message, key=37, versions="0-3", flexible="2+"):
    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


class CreatePartitionsTopicResult(Struct):
    name: String
    error_code: Int16
    error_message: String | None = None


class CreatePartitionsResponse(Message, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult]
