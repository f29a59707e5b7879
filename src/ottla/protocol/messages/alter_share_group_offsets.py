"""AlterShareGroupOffsets (key 91): set the start offsets of a share group."""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(Message, versions="0", flexible=0):
    group_id: String
    topics: list[AlterShareGroupOffsetsRequestTopic]


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
