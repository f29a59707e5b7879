"""DeleteGroups (key 42): remove empty groups with their offsets.

What each version changed:

    1: the client waits out a throttle.
    2: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct


class DeleteGroupsRequest(Message, versions="0-2", flexible=2):
    groups_names: list[String]


class DeletableGroupResult(Struct):
    group_id: String
    error_code: Int16


class DeleteGroupsResponse(Message, versions="0-2", flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
