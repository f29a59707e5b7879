"""InitializeShareGroupState (key 83): the group coordinator sets where share partitions begin (KIP-932)."""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, Uuid


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializeStateData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class InitializeShareGroupStateRequest(Message, versions="0", flexible=0):
    group_id: String
    topics: list[InitializeStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None


class InitializeStateResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Message, versions="0", flexible=0):
    results: list[InitializeStateResult]
