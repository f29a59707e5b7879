"""LeaveGroup (key 13): members leave a classic group at once instead of timing out.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: several members at once; request gains members; request loses member_id; response gains members.
    4: flexible.
    5: the reason is told; request gains reason.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, since


class MemberIdentity(Struct):
    member_id: String
    group_instance_id: String | None = None
    reason: String | None = since(5, default=None, ignorable=True)


class LeaveGroupRequest(Message, versions="0-5", flexible=4):
    group_id: String
    member_id: String = since(0, until=2, default="")
    members: list[MemberIdentity] = since(3, factory=list)


class MemberResponse(Struct):
    member_id: String
    group_instance_id: String | None
    error_code: Int16


class LeaveGroupResponse(Message, versions="0-5", flexible=4):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    members: list[MemberResponse] = since(3, factory=list)
