"""AlterUserScramCredentials: sets or deletes SCRAM credentials, salted by the client (KIP-554)."""

from kraft.wire.declaration import Array, Bytes, Int8, Int16, Int32, Message, String, Struct


class ScramCredentialDeletion(Struct):
    name: String
    mechanism: Int8


class ScramCredentialUpsertion(Struct):
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    deletions: Array[ScramCredentialDeletion]
    upsertions: Array[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    user: String
    error_code: Int16
    error_message: String | None


class AlterUserScramCredentialsResponse(Message, key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult]
