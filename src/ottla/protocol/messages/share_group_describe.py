"""ShareGroupDescribe (key 77): state and members of share groups (KIP-932).

What each version changed:

    1: lowest served: version 0 was an early access.
"""

from ottla.protocol.schema import Bool, Int16, Int32, Message, String, Struct, Uuid


class ShareGroupDescribeRequest(Message, versions="1", flexible=0):
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
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: Assignment


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


class ShareGroupDescribeResponse(Message, versions="1", flexible=0):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
