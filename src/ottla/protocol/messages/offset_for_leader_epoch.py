"""OffsetForLeaderEpoch (key 23): where a leader epoch ended; how followers and consumers find out that logs went apart.

What each version changed:

    2: lowest served; the leader epoch is checked.
    3: request gains replica_id.
    4: flexible.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, since


class OffsetForLeaderPartition(Struct):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct):
    topic: String
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(Message, versions="2-4", flexible=4):
    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]


class EpochEndOffset(Struct):
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Message, versions="2-4", flexible=4):
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]
