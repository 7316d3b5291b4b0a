"""AlterReplicaLogDirs: moves replicas between the log directories of one broker (KIP-113)."""

from kraft.wire.declaration import Array, Int16, Int32, Message, String, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String
    partitions: Array[Int32]


class AlterReplicaLogDir(Struct):
    path: String
    topics: Array[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(Message, key=34, versions="1-2", flexible="2+"):
    dirs: Array[AlterReplicaLogDir]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32
    error_code: Int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String
    partitions: Array[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Message, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: Array[AlterReplicaLogDirTopicResult]
