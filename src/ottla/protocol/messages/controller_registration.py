"""ControllerRegistration (key 70): a controller tells the active one of its listeners and features (KRaft clusters)."""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct, UInt16, Uuid


class Listener(Struct):
    name: String
    host: String
    port: UInt16
    security_protocol: Int16


class Feature(Struct):
    name: String
    min_supported_version: Int16
    max_supported_version: Int16


class ControllerRegistrationRequest(Message, versions="0", flexible=0):
    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: Bool
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
