"""PushTelemetry (key 72): a client sends the metrics the cluster asked for (KIP-714)."""

from ottla.protocol.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid


class PushTelemetryRequest(Message, versions="0", flexible=0):
    client_instance_id: Uuid
    subscription_id: Int32
    terminating: Bool
    compression_type: Int8
    metrics: Bytes


class PushTelemetryResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
