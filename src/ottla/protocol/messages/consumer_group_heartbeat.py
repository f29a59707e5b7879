"""ConsumerGroupHeartbeat (key 68): the one request of the new group protocol (KIP-848): join, stay, leave.

What each version changed:

    1: the client makes the member id; regular expressions; request gains subscribed_topic_regex.
"""

from ottla.protocol.schema import Int16, Int32, Message, String, Struct, Uuid, since


class TopicPartitions(Struct):
    topic_id: Uuid
    partitions: list[Int32]


class ConsumerGroupHeartbeatRequest(Message, versions="0-1", flexible=0):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = since(1, default=None)
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, versions="0-1", flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
