"""ListConfigResources (key 74): the names of resources that have settings.

What each version changed:

    0: client metrics resources only.
    1: resource types can be chosen; request gains resource_types; response gains resource_type.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Message, String, Struct, since


class ListConfigResourcesRequest(Message, versions="0-1", flexible=0):
    resource_types: list[Int8] = since(1, factory=list)


class ConfigResource(Struct):
    resource_name: String
    resource_type: Int8 = since(1, default=16, ignorable=True)


class ListConfigResourcesResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    config_resources: list[ConfigResource]
