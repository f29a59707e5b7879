"""OffsetCommit (key 8): a group keeps how far it has read.

What each version changed:

    2: lowest served.
    3: response gains throttle_time_ms.
    4: the client waits out a throttle.
    5: request loses retention_time_ms.
    6: request gains committed_leader_epoch.
    7: static members; request gains group_instance_id.
    8: flexible.
    9: members of the new protocol; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be answered.
    10: topics by id; request gains topic_id; request loses name; response gains topic_id; response loses name.
"""

from ottla.protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, String, Struct, Uuid, since


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: String | None


class OffsetCommitRequestTopic(Struct):
    name: String = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Message, versions="2-10", flexible=8):
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: String | None = since(7, default=None)
    retention_time_ms: Int64 = since(0, until=4, default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class OffsetCommitResponseTopic(Struct):
    name: String = since(0, until=9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Message, versions="2-10", flexible=8):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]
