"""WriteShareGroupState (key 85): the leader of a partition keeps how far a share group is in it (KIP-932).

What each version changed:

    1: lag; request gains delivery_complete_count.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, since


class StateBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class PartitionData(Struct):
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class WriteShareGroupStateRequest(Message, versions="0-1", flexible=0):
    group_id: String
    topics: list[WriteStateData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None


class WriteStateResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Message, versions="0-1", flexible=0):
    results: list[WriteStateResult]
