"""SaslAuthenticate: one step of the mechanism that SaslHandshake chose (KIP-152)."""

from kraft.wire.declaration import Bytes, Int16, Int64, Message, String, field


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: Bytes


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field("1+", default=0)
