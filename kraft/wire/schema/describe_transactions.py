"""DescribeTransactions: the state of transactions that a broker coordinates (KIP-664)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    transactional_ids: Array[String]


class TopicData(Struct):
    topic: String
    partitions: Array[Int32]


class TransactionState(Struct):
    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Array[TopicData]


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    transaction_states: Array[TransactionState]
