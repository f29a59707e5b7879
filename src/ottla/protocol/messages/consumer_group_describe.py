"""ConsumerGroupDescribe (key 69): state and members of groups of the new protocol (KIP-848).

What each version changed:

    1: member type; response gains member_type.
"""

from ottla.protocol.schema import Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, since


class ConsumerGroupDescribeRequest(Message, versions="0-1", flexible=0):
    group_ids: list[String]
    include_authorized_operations: Bool


class TopicPartitions(Struct):
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class Member(Struct):
    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Int8 = since(1, default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = -(1 << 31)


class ConsumerGroupDescribeResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
