"""GetTelemetrySubscriptions (key 71): a client asks which of its metrics the cluster wants (KIP-714)."""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Uuid


class GetTelemetrySubscriptionsRequest(Message, versions="0", flexible=0):
    client_instance_id: Uuid


class GetTelemetrySubscriptionsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    client_instance_id: Uuid
    subscription_id: Int32
    accepted_compression_types: list[Int8]
    push_interval_ms: Int32
    telemetry_max_bytes: Int32
    delta_temporality: Bool
    requested_metrics: list[String]
