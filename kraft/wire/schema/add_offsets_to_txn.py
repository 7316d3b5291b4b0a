"""AddOffsetsToTxn: adds a group whose offsets a transaction will commit."""

from kraft.wire.declaration import Int16, Int32, Int64, Message, String


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
