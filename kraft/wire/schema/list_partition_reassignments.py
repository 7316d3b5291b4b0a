"""ListPartitionReassignments: the reassignments in progress (KIP-455)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct


class ListPartitionReassignmentsTopics(Struct):
    name: String
    partition_indexes: Array[Int32]


class ListPartitionReassignmentsRequest(Message, key=46, versions="0", flexible="0+"):
    timeout_ms: Int32 = 60000
    topics: Array[ListPartitionReassignmentsTopics] | None = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


class OngoingTopicReassignment(Struct):
    name: String
    partitions: Array[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Message, key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    topics: Array[OngoingTopicReassignment]
