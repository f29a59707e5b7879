"""DescribeTopicPartitions (key 75): topics and partitions in pages, for clusters with very many of them."""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct, Uuid


class TopicRequest(Struct):
    name: String


class Cursor(Struct):
    topic_name: String
    partition_index: Int32


class DescribeTopicPartitionsRequest(Message, versions="0", flexible=0):
    topics: list[TopicRequest]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16
    name: String | None
    topic_id: Uuid
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = -(1 << 31)


class DescribeTopicPartitionsResponse(Message, versions="0", flexible=0):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = None
