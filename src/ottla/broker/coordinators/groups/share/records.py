"""The records of share groups in __consumer_offsets, as Kafka 4.3 writes them (all of version 0), and their tombstones.

Partitions and names are sorted, so that the same state is always the same bytes.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.consumer.member import Target
from ottla.broker.coordinators.groups.share.member import ShareMember
from ottla.protocol.schema import Message
from ottla.protocol.stored.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

KINDS: Final[dict[type[Message], type[Message]]] = {
    ShareGroupMetadataKey: ShareGroupMetadataValue,
    ShareGroupMemberMetadataKey: ShareGroupMemberMetadataValue,
    ShareGroupTargetAssignmentMetadataKey: ShareGroupTargetAssignmentMetadataValue,
    ShareGroupTargetAssignmentMemberKey: ShareGroupTargetAssignmentMemberValue,
    ShareGroupCurrentMemberAssignmentKey: ShareGroupCurrentMemberAssignmentValue,
    ShareGroupStatePartitionMetadataKey: ShareGroupStatePartitionMetadataValue,
}
STABLE: Final = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> StoredRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return StoredRecord(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> StoredRecord:
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return StoredRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: Target) -> StoredRecord:
    partitions = [
        TopicPartition(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in sorted(target.items())
    ]
    value = ShareGroupTargetAssignmentMemberValue(topic_partitions=partitions)
    return StoredRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> StoredRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return StoredRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ShareMember) -> StoredRecord:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(each))
            for topic_id, each in sorted(member.assigned.items())
        ],
    )
    return StoredRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


# -- tombstones -------------------------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> tuple[StoredRecord, ...]:
    """Current, then target, then the member: Kafka refuses to replay them in another order."""
    return (
        StoredRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        StoredRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        StoredRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_tombstones(group_id: str) -> tuple[StoredRecord, ...]:
    return (
        StoredRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        StoredRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None),
        StoredRecord(ShareGroupMetadataKey(group_id=group_id), None),
    )
