"""ShareAcknowledge (key 79): a share group member acknowledges records (KIP-932).

What each version changed:

    1: lowest served: version 0 was an early access.
    2: acquisitions can be renewed (KIP-1222); request gains is_renew_ack; response gains acquisition_lock_timeout_ms.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, since


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class AcknowledgePartition(Struct):
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(Message, versions="1-2", flexible=0):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Bool = since(2, default=False)
    topics: list[AcknowledgeTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ShareAcknowledgeResponse(Message, versions="1-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = since(2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
