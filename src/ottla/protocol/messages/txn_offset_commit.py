"""TxnOffsetCommit (key 28): a group's offsets, kept only if the transaction commits.

What each version changed:

    1: the client waits out a throttle.
    2: request gains committed_leader_epoch.
    3: group metadata is checked (KIP-447); request gains generation_id, member_id, group_instance_id; flexible.
    4: TRANSACTION_ABORTABLE may be answered.
    5: the group joins the transaction by this request (KIP-890).
"""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct, since


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: String | None


class TxnOffsetCommitRequestTopic(Struct):
    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(Message, versions="0-5", flexible=3):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = since(3, default=-1)
    member_id: String = since(3, default="")
    group_instance_id: String | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32
    error_code: Int16


class TxnOffsetCommitResponseTopic(Struct):
    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Message, versions="0-5", flexible=3):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
