"""DescribeGroups (key 15): state and members of classic groups.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: authorized operations on demand; request gains include_authorized_operations; response gains
        authorized_operations.
    4: static members; response gains group_instance_id.
    5: flexible.
    6: GROUP_ID_NOT_FOUND with a message instead of the state Dead; response gains error_message.
"""

from ottla.protocol.schema import Bool, Bytes, Int16, Int32, Message, String, Struct, since


class DescribeGroupsRequest(Message, versions="0-6", flexible=5):
    groups: list[String]
    include_authorized_operations: Bool = since(3, default=False)


class DescribedGroupMember(Struct):
    member_id: String
    group_instance_id: String | None = since(4, default=None, ignorable=True)
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = since(6, default=None)
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Int32 = since(3, default=-(1 << 31))


class DescribeGroupsResponse(Message, versions="0-6", flexible=5):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: list[DescribedGroup]
