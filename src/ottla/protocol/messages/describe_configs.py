"""DescribeConfigs (key 32): read the settings of topics, brokers, groups and client metrics.

What each version changed:

    1: lowest served; sources and synonyms.
    2: the client waits out a throttle.
    3: types and documentation on demand; request gains include_documentation; response gains config_type,
        documentation.
    4: flexible.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, since


class DescribeConfigsResource(Struct):
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


class DescribeConfigsRequest(Message, versions="1-4", flexible=4):
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Bool = since(3, default=False)


class DescribeConfigsSynonym(Struct):
    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: String | None = since(3, default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: Int16
    error_message: String | None = None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Message, versions="1-4", flexible=4):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
