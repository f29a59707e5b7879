"""Settings, feature levels, quotas and producer ids in the metadata log."""

from ottla.protocol.schema import Bool, Float64, Int8, Int16, Int32, Int64, Message, String, Struct, secret


class ConfigRecord(Message, versions="0", flexible=0, record_type=4):
    """No value takes the setting away. It may be a password, so it is never shown."""

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None = secret()


class FeatureLevelRecord(Message, versions="0", flexible=0, record_type=12):
    """Level 0 takes the feature away."""

    name: String
    feature_level: Int16


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class ClientQuotaRecord(Message, versions="0", flexible=0, record_type=14):
    entity: list[EntityData]
    key: String
    value: Float64
    remove: Bool


class ProducerIdsRecord(Message, versions="0", flexible=0, record_type=15):
    """Producer ids below `next_producer_id` are given away; the last block went to this broker."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64
