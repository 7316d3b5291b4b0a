"""Produce: record batches for the leaders of partitions.

With `acks=0` there is no response, not even for an error. Errors of single records are KIP-467 (version 8), the new
leader's address KIP-951 (10), topic ids KIP-516 (13).
"""

from kraft.wire.declaration import ZERO_UUID, Array, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, field


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: String = field("3-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_data: Array[PartitionProduceData]


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: Array[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1)
    record_errors: Array[BatchIndexAndErrorMessage] = field("8+", default=())
    error_message: String | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", default=LeaderIdAndEpoch(), tag=0)


class TopicProduceResponse(Struct):
    name: String = field("3-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_responses: Array[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    responses: Array[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Array[NodeEndpoint] = field("10+", default=(), tag=0)
