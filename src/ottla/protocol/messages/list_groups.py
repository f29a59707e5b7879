"""ListGroups (key 16): the groups a broker looks after.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: flexible.
    4: filter by state; request gains states_filter; response gains group_state.
    5: filter by type; request gains types_filter; response gains group_type.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, since


class ListGroupsRequest(Message, versions="0-5", flexible=3):
    states_filter: list[String] = since(4, factory=list)
    types_filter: list[String] = since(5, factory=list)


class ListedGroup(Struct):
    group_id: String
    protocol_type: String
    group_state: String = since(4, default="", ignorable=True)
    group_type: String = since(5, default="", ignorable=True)


class ListGroupsResponse(Message, versions="0-5", flexible=3):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16
    groups: list[ListedGroup]
