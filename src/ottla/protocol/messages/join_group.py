"""JoinGroup (key 11): a member enters a classic group and waits for the others.

What each version changed:

    1: rebalance time-out of its own; request gains rebalance_timeout_ms.
    2: response gains throttle_time_ms.
    3: the client waits out a throttle.
    4: MEMBER_ID_REQUIRED asks a new member to come again with its id.
    5: static members; request gains group_instance_id; response gains group_instance_id.
    6: flexible.
    7: the protocol type is told; response gains protocol_type.
    8: the reason is told; request gains reason.
    9: the leader may skip the assignment; response gains skip_assignment.
"""

from ottla.protocol.schema import Bool, Bytes, Int16, Int32, Message, String, Struct, since


class JoinGroupRequestProtocol(Struct):
    name: String
    metadata: Bytes


class JoinGroupRequest(Message, versions="0-9", flexible=6):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: String
    group_instance_id: String | None = since(5, default=None)
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: String | None = since(8, default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: String
    group_instance_id: String | None = since(5, default=None, ignorable=True)
    metadata: Bytes


class JoinGroupResponse(Message, versions="0-9", flexible=6):
    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16
    generation_id: Int32 = -1
    protocol_type: String | None = since(7, default=None, ignorable=True)
    protocol_name: String | None = since(0, nullable_since=7)
    leader: String
    skip_assignment: Bool = since(9, default=False)
    member_id: String
    members: list[JoinGroupResponseMember]
