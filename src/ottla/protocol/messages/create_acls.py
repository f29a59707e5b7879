"""CreateAcls (key 30): add access rules.

What each version changed:

    1: lowest served; pattern types.
    2: flexible.
    3: user resources.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Message, String, Struct


class AclCreation(Struct):
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


class CreateAclsRequest(Message, versions="1-3", flexible=2):
    creations: list[AclCreation]


class AclCreationResult(Struct):
    error_code: Int16
    error_message: String | None = None


class CreateAclsResponse(Message, versions="1-3", flexible=2):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
