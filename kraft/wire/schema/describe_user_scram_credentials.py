"""DescribeUserScramCredentials: names of users with SCRAM credentials, never the credentials (KIP-554)."""

from kraft.wire.declaration import Array, Int8, Int16, Int32, Message, String, Struct


class UserName(Struct):
    name: String


class DescribeUserScramCredentialsRequest(Message, key=50, versions="0", flexible="0+"):
    users: Array[UserName] | None


class CredentialInfo(Struct):
    mechanism: Int8
    iterations: Int32


class DescribeUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None
    credential_infos: Array[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    results: Array[DescribeUserScramCredentialsResult]
