"""ShareFetch (key 78): a share group member acquires records, and may acknowledge earlier ones (KIP-932).

What each version changed:

    1: lowest served: version 0 was an early access; request loses partition_max_bytes.
    2: acquire modes and renewal (KIP-1206, KIP-1222); request gains share_acquire_mode, is_renew_ack.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, since


class AcknowledgementBatch(Struct):
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class FetchPartition(Struct):
    partition_index: Int32
    partition_max_bytes: Int32 = since(0, until=0, default=0)
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: Uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareFetchRequest(Message, versions="1-2", flexible=0):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2_147_483_647
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = since(2, default=0, ignorable=True)
    is_renew_ack: Bool = since(2, default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class LeaderIdAndEpoch(Struct):
    leader_id: Int32
    leader_epoch: Int32


class AcquiredRecords(Struct):
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch
    records: Records | None = since(0, nullable_until=0)
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ShareFetchResponse(Message, versions="1-2", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
