"""CreateDelegationToken: issues a token, a password that expires (KIP-48)."""

from kraft.wire.declaration import Array, Bytes, Int16, Int32, Int64, Message, String, Struct, field


class CreatableRenewers(Struct):
    principal_type: String
    principal_name: String


class CreateDelegationTokenRequest(Message, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: String | None = field("3+", default="")
    owner_principal_name: String | None = field("3+", default="")
    renewers: Array[CreatableRenewers]
    max_lifetime_ms: Int64


class CreateDelegationTokenResponse(Message, key=38, versions="1-3", flexible="2+"):
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
