"""InitProducerId: producer id and epoch for an idempotent or transactional producer (KIP-98, KIP-360, KIP-939)."""

from kraft.wire.declaration import Bool, Int16, Int32, Int64, Message, String, field


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    transactional_id: String | None
    transaction_timeout_ms: Int32
    producer_id: Int64 = field("3+", default=-1)
    producer_epoch: Int16 = field("3+", default=-1)
    enable2_pc: Bool = field("6+", default=False)
    keep_prepared_txn: Bool = field("6+", default=False)


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: Int16 = field("6+", default=-1)
