"""RenewDelegationToken: extends a token's lifetime (KIP-48)."""

from kraft.wire.declaration import Bytes, Int16, Int32, Int64, Message


class RenewDelegationTokenRequest(Message, key=39, versions="1-2", flexible="2+"):
    hmac: Bytes
    renew_period_ms: Int64


class RenewDelegationTokenResponse(Message, key=39, versions="1-2", flexible="2+"):
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
