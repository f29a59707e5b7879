"""UpdateFeatures (key 57): raise or lower finalized feature levels.

What each version changed:

    1: upgrade types, validate only; request gains upgrade_type, validate_only; request loses allow_downgrade.
    2: no results of single features; response loses results.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, since


class FeatureUpdateKey(Struct):
    feature: String
    max_version_level: Int16
    allow_downgrade: Bool = since(0, until=0, default=False)
    upgrade_type: Int8 = since(1, default=1)


class UpdateFeaturesRequest(Message, versions="0-2", flexible=0):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = since(1, default=False)


class UpdatableFeatureResult(Struct):
    feature: String
    error_code: Int16
    error_message: String | None = None


class UpdateFeaturesResponse(Message, versions="0-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    results: list[UpdatableFeatureResult] = since(0, until=1, factory=list, ignorable=True)
