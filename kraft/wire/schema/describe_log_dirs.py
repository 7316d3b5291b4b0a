"""DescribeLogDirs: the replicas in a broker's log directories, and the free space there (KIP-827)."""

from kraft.wire.declaration import Array, Bool, Int16, Int32, Int64, Message, String, Struct, field


class DescribableLogDirTopic(Struct):
    topic: String
    partitions: Array[Int32]


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    topics: Array[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: Int32
    partition_size: Int64
    offset_lag: Int64
    is_future_key: Bool


class DescribeLogDirsTopic(Struct):
    name: String
    partitions: Array[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: Int16
    log_dir: String
    topics: Array[DescribeLogDirsTopic]
    total_bytes: Int64 = field("4+", default=-1)
    usable_bytes: Int64 = field("4+", default=-1)
    is_cordoned: Bool = field("5+", default=False)
    # In no version of Kafka: over gRPC, why a directory has failed, or refuses appends. Empty for neither.
    reason: String = field("none", default="")
    # Nor this: how long a round of syncs takes there now.
    sync_ms: Int64 = field("none", default=0)


class DescribeLogDirsResponse(Message, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("3+", default=0)
    results: Array[DescribeLogDirsResult]
