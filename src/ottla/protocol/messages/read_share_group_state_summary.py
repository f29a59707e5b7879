"""ReadShareGroupStateSummary (key 87): where share partitions begin, without their records (KIP-932).

What each version changed:

    1: lag; response gains delivery_complete_count.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, Uuid, since


class PartitionData(Struct):
    partition: Int32
    leader_epoch: Int32


class ReadStateSummaryData(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(Message, versions="0-1", flexible=0):
    group_id: String
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    partition: Int32
    error_code: Int16
    error_message: String | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateSummaryResponse(Message, versions="0-1", flexible=0):
    results: list[ReadStateSummaryResult]
