"""IncrementalAlterConfigs (key 44): set, remove, append or subtract single settings.

What each version changed:

    1: flexible.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, secret


class AlterableConfig(Struct):
    name: String
    config_operation: Int8
    value: String | None = secret()


class AlterConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(Message, versions="0-1", flexible=1):
    resources: list[AlterConfigsResource]
    validate_only: Bool


class AlterConfigsResourceResponse(Struct):
    error_code: Int16
    error_message: String | None = None
    resource_type: Int8
    resource_name: String


class IncrementalAlterConfigsResponse(Message, versions="0-1", flexible=1):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
