"""SaslHandshake: chooses the SASL mechanism; in version 0 raw tokens follow, without Kafka's headers."""

from kraft.wire.declaration import Array, Int16, Message, String


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    mechanism: String


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: Int16
    mechanisms: Array[String]
