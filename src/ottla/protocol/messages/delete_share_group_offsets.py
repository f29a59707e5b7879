"""DeleteShareGroupOffsets (key 92): forget the start offsets of a share group."""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String


class DeleteShareGroupOffsetsRequest(Message, versions="0", flexible=0):
    group_id: String
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
