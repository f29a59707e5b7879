"""Produce (key 0): a producer hands record batches to the leaders of their partitions.

What each version changed:

    3: lowest served; record format 2 only, transactional id.
    4: the broker may answer KAFKA_STORAGE_ERROR.
    5: response gains log_start_offset.
    6: the client, not the broker, waits out a throttle.
    7: zstd allowed.
    8: errors of single records; response gains record_errors, error_message.
    9: flexible.
    10: the answer may name the new leader; response gains current_leader, node_endpoints.
    11: TRANSACTION_ABORTABLE may be answered.
    12: partitions join a transaction by being written to (KIP-890).
    13: topics by id; request gains topic_id; request loses name; response gains topic_id; response loses name.
"""

from ottla.protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, since, tagged


class PartitionProduceData(Struct):
    index: Int32
    records: Records | None


class TopicProduceData(Struct):
    name: String = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Message, versions="3-13", flexible=9):
    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32
    error_code: Int16
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, factory=list, ignorable=True)
    error_message: String | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = tagged(0, since=10, factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: String = since(0, until=12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


class ProduceResponse(Message, versions="3-13", flexible=9):
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = tagged(0, since=10, factory=list)
