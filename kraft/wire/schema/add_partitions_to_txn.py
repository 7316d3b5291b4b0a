"""AddPartitionsToTxn: adds partitions that a transaction will write to.

Brokers send versions 4 and up, with many transactions at once; producers send the others. Source: KIP-890.
"""

from kraft.wire.declaration import Array, Bool, Int16, Int32, Int64, Message, String, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: String
    partitions: Array[Int32]


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: Array[AddPartitionsToTxnTopic]


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    transactions: Array[AddPartitionsToTxnTransaction] = field("4+", default=())
    v3_and_below_transactional_id: String = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = field("0-3", default=())


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32
    partition_error_code: Int16


class AddPartitionsToTxnTopicResult(Struct):
    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResult(Struct):
    transactional_id: String
    topic_results: Array[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnResponse(Message, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("4+", default=0)
    results_by_transaction: Array[AddPartitionsToTxnResult] = field("4+", default=())
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = field("0-3", default=())
