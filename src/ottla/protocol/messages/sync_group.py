"""SyncGroup (key 14): the leader of a classic group hands out the assignment, the others fetch theirs.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: static members; request gains group_instance_id.
    4: flexible.
    5: protocol type and name are checked; request gains protocol_type, protocol_name; response gains protocol_type,
        protocol_name.
"""

from ottla.protocol.schema import Bytes, Int16, Int32, Message, String, Struct, since


class SyncGroupRequestAssignment(Struct):
    member_id: String
    assignment: Bytes


class SyncGroupRequest(Message, versions="0-5", flexible=4):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = since(3, default=None)
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupResponse(Message, versions="0-5", flexible=4):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    protocol_type: String | None = since(5, default=None, ignorable=True)
    protocol_name: String | None = since(5, default=None, ignorable=True)
    assignment: Bytes
