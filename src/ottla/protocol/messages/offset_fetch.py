"""OffsetFetch (key 9): how far a group has read.

What each version changed:

    1: lowest served; offsets kept in the internal topic.
    2: a null topic list asks for all; response gains error_code.
    3: response gains throttle_time_ms.
    4: the client waits out a throttle.
    5: response gains committed_leader_epoch.
    6: flexible.
    7: offsets of open transactions can be waited for; request gains require_stable.
    8: several groups in one request; request gains groups; request loses group_id, topics; response gains groups;
        response loses topics, error_code.
    9: members of the new protocol; request gains member_id, member_epoch.
    10: topics by id; request gains topic_id; request loses name; response gains topic_id; response loses name.
"""

from ottla.protocol.schema import ZERO_UUID, Bool, Int16, Int32, Int64, Message, String, Struct, Uuid, since


class OffsetFetchRequestTopic(Struct):
    name: String
    partition_indexes: list[Int32]


class OffsetFetchRequestTopics(Struct):
    name: String = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32]


class OffsetFetchRequestGroup(Struct):
    group_id: String
    member_id: String | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Message, versions="1-10", flexible=6):
    group_id: String = since(0, until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = since(0, until=7, factory=list, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = since(8, factory=list)
    require_stable: Bool = since(7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(5, default=-1, ignorable=True)
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopic(Struct):
    name: String
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = -1
    metadata: String | None
    error_code: Int16


class OffsetFetchResponseTopics(Struct):
    name: String = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: String
    topics: list[OffsetFetchResponseTopics]
    error_code: Int16 = 0


class OffsetFetchResponse(Message, versions="1-10", flexible=6):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = since(0, until=7, factory=list)
    error_code: Int16 = since(2, until=7, default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8, factory=list)
