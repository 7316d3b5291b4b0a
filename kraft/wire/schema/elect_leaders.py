"""ElectLeaders: elects the preferred leader, or since version 1 any replica (unclean) (KIP-460)."""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct, field


class TopicPartitions(Struct):
    topic: String
    partitions: Array[Int32]


class ElectLeadersRequest(Message, key=43, versions="0-2", flexible="2+"):
    election_type: Int8 = field("1+", default=0)
    topic_partitions: Array[TopicPartitions] | None
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32
    error_code: Int16
    error_message: String | None


class ReplicaElectionResult(Struct):
    topic: String
    partition_result: Array[PartitionResult]


class ElectLeadersResponse(Message, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("1+", default=0)
    replica_election_results: Array[ReplicaElectionResult]
