"""AlterClientQuotas (key 49): set and remove quotas.

What each version changed:

    1: flexible.
"""

from ottla.protocol.schema import Bool, Float64, Int16, Int32, Message, String, Struct


class EntityData(Struct):
    entity_type: String
    entity_name: String | None


class OpData(Struct):
    key: String
    value: Float64
    remove: Bool


class EntryData(Struct):
    entity: list[EntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(Message, versions="0-1", flexible=1):
    entries: list[EntryData]
    validate_only: Bool


class ResponseEntryData(Struct):
    error_code: Int16
    error_message: String | None = None
    entity: list[EntityData]


class AlterClientQuotasResponse(Message, versions="0-1", flexible=1):
    throttle_time_ms: Int32 = 0
    entries: list[ResponseEntryData]
