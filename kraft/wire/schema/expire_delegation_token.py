"""ExpireDelegationToken: changes when a token expires, or ends it at once (KIP-48)."""

from kraft.wire.declaration import Bytes, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message, key=40, versions="1-2", flexible="2+"):
    hmac: Bytes
    expiry_time_period_ms: Int64


class ExpireDelegationTokenResponse(Message, key=40, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
