"""DeleteRecords: deletes the records below an offset (KIP-107)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct):
    name: String
    partitions: Array[DeleteRecordsPartition]


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


class DeleteRecordsTopicResult(Struct):
    name: String
    partitions: Array[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    topics: Array[DeleteRecordsTopicResult]
