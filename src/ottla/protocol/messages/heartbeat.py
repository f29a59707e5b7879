"""Heartbeat (key 12): a member of a classic group says that it is alive.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: static members; request gains group_instance_id.
    4: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, since


class HeartbeatRequest(Message, versions="0-4", flexible=4):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)


class HeartbeatResponse(Message, versions="0-4", flexible=4):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
