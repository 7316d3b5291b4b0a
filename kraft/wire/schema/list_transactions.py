"""ListTransactions: transactions that a broker coordinates, by state, producer, age and id (KIP-664, KIP-994)."""

from kraft.wire.declaration import Array, Int16, Int32, Int64, Message, String, Struct, field


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: String | None = field("2+", default=None)


class TransactionState(Struct):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[TransactionState]
