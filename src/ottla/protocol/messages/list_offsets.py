"""ListOffsets (key 2): which offset is first, last, or first at or after a time.

What each version changed:

    1: lowest served; one offset per partition.
    2: isolation level; request gains isolation_level; response gains throttle_time_ms.
    3: the client waits out a throttle.
    4: the leader epoch is checked; request gains current_leader_epoch; response gains leader_epoch.
    5: OFFSET_NOT_AVAILABLE may be answered.
    6: flexible.
    7: timestamp -3 asks for the offset of the largest timestamp.
    8: -4 asks for the local log start.
    9: -5 asks for the end of what is tiered.
    10: time-out for remote lookups; request gains timeout_ms.
    11: -6 asks for the earliest offset still to be tiered.
"""

from ottla.protocol.schema import Int8, Int16, Int32, Int64, Message, String, Struct, since


class ListOffsetsPartition(Struct):
    partition_index: Int32
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64


class ListOffsetsTopic(Struct):
    name: String
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Message, versions="1-11", flexible=6):
    replica_id: Int32
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Message, versions="1-11", flexible=6):
    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]
