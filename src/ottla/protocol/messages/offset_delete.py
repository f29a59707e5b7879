"""OffsetDelete (key 47): forget a group's offsets for some partitions."""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct):
    name: String
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Message, versions="0"):
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetDeleteResponseTopic(Struct):
    name: String
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Message, versions="0"):
    error_code: Int16
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
