"""UnregisterBroker: removes the registration of a broker for good (KIP-631)."""

from kraft.wire.declaration import Int16, Int32, Message, String


class UnregisterBrokerRequest(Message, key=64, versions="0", flexible="0+"):
    broker_id: Int32


class UnregisterBrokerResponse(Message, key=64, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
