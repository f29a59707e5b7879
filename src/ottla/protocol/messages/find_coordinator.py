"""FindCoordinator (key 10): which broker looks after a group, a transactional id or a share partition.

What each version changed:

    1: coordinators of transactions too; request gains key_type; response gains throttle_time_ms, error_message.
    3: flexible.
    4: several keys in one request; request gains coordinator_keys; request loses key; response gains coordinators;
        response loses error_code, error_message, node_id, host, port.
    5: TRANSACTION_ABORTABLE may be answered.
    6: share coordinators, key type 2.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Message, String, Struct, since


class FindCoordinatorRequest(Message, versions="0-6", flexible=3):
    key: String = since(0, until=3, default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[String] = since(4, factory=list)


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None = None


class FindCoordinatorResponse(Message, versions="0-6", flexible=3):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = since(0, until=3, default=0)
    error_message: String | None = since(1, until=3, default=None, ignorable=True)
    node_id: Int32 = since(0, until=3, default=0)
    host: String = since(0, until=3, default="")
    port: Int32 = since(0, until=3, default=0)
    coordinators: list[Coordinator] = since(4, factory=list)
