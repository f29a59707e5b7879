"""DescribeShareGroupOffsets (key 90): start offsets and lag of share groups.

What each version changed:

    1: lag; response gains lag.
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, Uuid, since


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String
    partitions: list[Int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


class DescribeShareGroupOffsetsRequest(Message, versions="0-1", flexible=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup]


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String
    topic_id: Uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: Int16
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup]
