"""PushTelemetry: the metrics that a client was asked to send, as OTLP (KIP-714)."""

from kraft.wire.declaration import Bool, Bytes, Int8, Int16, Int32, Message, Uuid


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16
