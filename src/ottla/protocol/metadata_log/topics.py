"""Topics and partitions in the metadata log.

A PartitionRecord says all of a partition, a PartitionChangeRecord what is different: all that may change is tagged.
"""

from typing import Final

from ottla.protocol.schema import Int8, Int32, Message, String, Uuid, since, tagged

NO_LEADER_CHANGE: Final = -2
"""In a PartitionChangeRecord: the leader and the leader epoch stay."""
NO_RECOVERY_CHANGE: Final = -1
"""In a PartitionChangeRecord: the recovery state of the leader stays."""


class TopicRecord(Message, versions="0", flexible=0, record_type=2):
    name: String
    topic_id: Uuid


class PartitionRecord(Message, versions="0-2", flexible=0, record_type=3):
    """`leader_recovery_state`: 1 after an unclean election, until the leader has recovered. `directories` go with
    `replicas`, one for one."""

    partition_id: Int32 = -1
    topic_id: Uuid
    replicas: list[Int32]
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = -1
    leader_recovery_state: Int8 = tagged(0, default=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = since(1, factory=list)
    eligible_leader_replicas: list[Int32] | None = tagged(1, since=2, default=None)
    last_known_elr: list[Int32] | None = tagged(2, since=2, default=None)


class PartitionChangeRecord(Message, versions="0-2", flexible=0, record_type=5):
    """What is None (or NO_LEADER_CHANGE, NO_RECOVERY_CHANGE) stays as it is."""

    partition_id: Int32 = -1
    topic_id: Uuid
    isr: list[Int32] | None = tagged(0, default=None)
    leader: Int32 = tagged(1, default=NO_LEADER_CHANGE)
    replicas: list[Int32] | None = tagged(2, default=None)
    removing_replicas: list[Int32] | None = tagged(3, default=None)
    adding_replicas: list[Int32] | None = tagged(4, default=None)
    leader_recovery_state: Int8 = tagged(5, default=NO_RECOVERY_CHANGE)
    directories: list[Uuid] | None = tagged(8, since=1, default=None)
    eligible_leader_replicas: list[Int32] | None = tagged(6, since=2, default=None)
    last_known_elr: list[Int32] | None = tagged(7, since=2, default=None)


class RemoveTopicRecord(Message, versions="0", flexible=0, record_type=9):
    """The topic is gone, and its partitions and settings with it."""

    topic_id: Uuid


class ClearElrRecord(Message, versions="0", flexible=0, record_type=28):
    """No partition of the topic has eligible leader replicas any more; no name means all topics."""

    topic_name: String
