"""DeleteShareGroupState (key 86): the group coordinator has share partitions forgotten (KIP-932)."""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, Uuid


class PartitionData(Struct):
    partition: Int32


class DeleteStateData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class DeleteShareGroupStateRequest(Message, versions="0", flexible=0):
    group_id: String
    topics: list[DeleteStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None


class DeleteStateResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Message, versions="0", flexible=0):
    results: list[DeleteStateResult]
