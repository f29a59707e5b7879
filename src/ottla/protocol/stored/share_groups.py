"""Share groups (KIP-932): keys and values in __consumer_offsets.

Members and assignment only; which records are acquired is kept apart, see share_state.py.
"""

from ottla.protocol.schema import Int8, Int32, Int64, Message, String, Struct, Uuid, tagged


class ShareGroupMetadataKey(Message, versions="0", record_type=11):
    group_id: String


class ShareGroupMetadataValue(Message, versions="0", flexible=0):
    epoch: Int32
    metadata_hash: Int64


class ShareGroupMemberMetadataKey(Message, versions="0", record_type=10):
    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(Message, versions="0", flexible=0):
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


class ShareGroupTargetAssignmentMetadataKey(Message, versions="0", record_type=12):
    group_id: String


class ShareGroupTargetAssignmentMetadataValue(Message, versions="0", flexible=0):
    assignment_epoch: Int32
    assignment_timestamp: Int64 = tagged(0, default=0)


class ShareGroupTargetAssignmentMemberKey(Message, versions="0", record_type=13):
    group_id: String
    member_id: String


class TopicPartition(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupTargetAssignmentMemberValue(Message, versions="0", flexible=0):
    topic_partitions: list[TopicPartition]


class ShareGroupCurrentMemberAssignmentKey(Message, versions="0", record_type=14):
    group_id: String
    member_id: String


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ShareGroupCurrentMemberAssignmentValue(Message, versions="0", flexible=0):
    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: list[TopicPartitions]


class ShareGroupStatePartitionMetadataKey(Message, versions="0", record_type=15):
    group_id: String


class TopicPartitionsInfo(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class TopicInfo(Struct):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(Message, versions="0", flexible=0):
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]
