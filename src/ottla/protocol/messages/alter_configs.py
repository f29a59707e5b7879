"""AlterConfigs (key 33): replace all settings of a resource; IncrementalAlterConfigs is the better one.

What each version changed:

    1: the client waits out a throttle.
    2: flexible.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, secret


class AlterableConfig(Struct):
    name: String
    value: String | None = secret()


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


class AlterConfigsRequest(Message, versions="0-2", flexible=2):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


class AlterConfigsResponse(Message, versions="0-2", flexible=2):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
