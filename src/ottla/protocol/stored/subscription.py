"""What classic consumers tell each other inside JoinGroup and SyncGroup.

Brokers pass it on unread, except to list what a group is assigned. It is led by its int16 version; a reader of an older
version must ignore what follows. Subscription 1 has owned partitions (cooperative), 2 the generation, 3 the rack.
"""

from ottla.protocol.schema import Bytes, Int32, Message, String, Struct, since


class TopicPartition(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[String]
    user_data: Bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, factory=list, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: String | None = since(3, default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: String
    partitions: list[Int32]


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition]
    user_data: Bytes | None = None
