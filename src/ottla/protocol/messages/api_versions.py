"""ApiVersions (key 18): which APIs and versions a broker speaks; the first request on every connection.

What each version changed:

    1: response gains throttle_time_ms.
    2: the client waits out a throttle.
    3: software name and version of the client; features. The response header stays at version 0 for ever; request
        gains client_software_name, client_software_version; response gains supported_features,
        finalized_features_epoch, finalized_features, zk_migration_ready; flexible.
    4: features with minimum 0 are told.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Int64, Message, String, Struct, since, tagged


class ApiVersionsRequest(Message, versions="0-4", flexible=3):
    client_software_name: String = since(3, default="", ignorable=True)
    client_software_version: String = since(3, default="", ignorable=True)


class ApiVersion(Struct):
    api_key: Int16
    min_version: Int16
    max_version: Int16


class SupportedFeatureKey(Struct):
    name: String
    min_version: Int16
    max_version: Int16


class FinalizedFeatureKey(Struct):
    name: String
    max_version_level: Int16
    min_version_level: Int16


class ApiVersionsResponse(Message, versions="0-4", flexible=3):
    error_code: Int16
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = tagged(0, since=3, factory=list, ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, since=3, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = tagged(2, since=3, factory=list, ignorable=True)
    zk_migration_ready: Bool = tagged(3, since=3, default=False, ignorable=True)
