"""DescribeProducers (key 61): the producers that are active on a partition."""

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, Struct


class TopicRequest(Struct):
    name: String
    partition_indexes: list[Int32]


class DescribeProducersRequest(Message, versions="0", flexible=0):
    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32
    error_code: Int16
    error_message: String | None = None
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: String
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse]
