"""Groups of the new protocol (KIP-848): keys and values in __consumer_offsets.

A group is what a replay of these gives: its epoch, what its members subscribe to, where each should be (target) and
where each is (current).
"""

from ottla.protocol.schema import Bytes, Int8, Int32, Int64, Message, String, Struct, Uuid, tagged


class ConsumerGroupMetadataKey(Message, versions="0", record_type=3):
    group_id: String


class ConsumerGroupMetadataValue(Message, versions="0", flexible=0):
    epoch: Int32
    metadata_hash: Int64 = tagged(0, default=0)


class ConsumerGroupPartitionMetadataKey(Message, versions="0", record_type=4):
    group_id: String


class PartitionMetadata(Struct):
    partition: Int32
    racks: list[String]


class TopicMetadata(Struct):
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible=0):
    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(Message, versions="0", record_type=5):
    group_id: String
    member_id: String


class ClassicProtocol(Struct):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32
    supported_protocols: list[ClassicProtocol]


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible=0):
    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = tagged(0, default=None)


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0", record_type=6):
    group_id: String


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0", record_type=7):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible=0):
    topic_partitions: list[TopicPartition]


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="0", record_type=8):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = tagged(0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]


class ConsumerGroupRegularExpressionKey(Message, versions="0", record_type=16):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible=0):
    topics: list[String]
    version: Int64
    timestamp: Int64
