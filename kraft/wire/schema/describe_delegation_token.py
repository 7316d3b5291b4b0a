"""DescribeDelegationToken: the tokens of some owners, or of all (KIP-48)."""

from kraft.wire.declaration import Array, Bytes, Int16, Int32, Int64, Message, String, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: String
    principal_name: String


class DescribeDelegationTokenRequest(Message, key=41, versions="1-3", flexible="2+"):
    owners: Array[DescribeDelegationTokenOwner] | None


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String
    principal_name: String


class DescribedDelegationToken(Struct):
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field("3+", default="")
    token_requester_principal_name: String = field("3+", default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: Array[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Message, key=41, versions="1-3", flexible="2+"):
    error_code: Int16
    tokens: Array[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
