"""ShareGroupHeartbeat (key 76): the heartbeat of a share group member (KIP-932).

What each version changed:

    1: lowest served: version 0 was an early access with another layout.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, Uuid


class ShareGroupHeartbeatRequest(Message, versions="1", flexible=0):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ShareGroupHeartbeatResponse(Message, versions="1", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
