"""DescribeProducers: the idempotent producers of a partition (KIP-664)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct


class TopicRequest(Struct):
    name: String
    partition_indexes: Array[Int32]


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    topics: Array[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    active_producers: Array[ProducerState]


class TopicResponse(Struct):
    name: String
    partitions: Array[PartitionResponse]


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    topics: Array[TopicResponse]
