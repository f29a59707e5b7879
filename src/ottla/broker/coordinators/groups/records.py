"""The records of __consumer_offsets that the group coordinator writes, at the versions Kafka 4.3 writes them.

GroupMetadataValue   3: flexible versions wait until every broker of a cluster can read them
OffsetCommitValue    4, which may carry the topic id; 1 when the client asked for a retention of its own, because
                     only that version has room for it
"""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinators.effects import StoredRecord
from ottla.protocol.schema import ZERO_UUID
from ottla.protocol.stored.classic_groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from ottla.protocol.stored.offsets import OffsetCommitKey, OffsetCommitValue

GROUP_METADATA_VERSION: Final = 3
OFFSET_COMMIT_VERSION: Final = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION: Final = 1
NO_EXPIRY: Final = -1


def group_record(
    group_id: str,
    *,
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    since_ms: int,
    members: list[MemberMetadata],
) -> StoredRecord:
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=since_ms,
        members=members,
    )
    return StoredRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def founding_record(group_id: str, now_ms: int) -> StoredRecord:
    """A group that somebody has begun to join."""
    return group_record(
        group_id, protocol_type="", generation=0, protocol=None, leader=None, since_ms=now_ms, members=[]
    )


def group_tombstone(group_id: str) -> StoredRecord:
    return StoredRecord(GroupMetadataKey(group=group_id), None)


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    *,
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    now_ms: int,
    expire_timestamp_ms: int = NO_EXPIRY,
    topic_id: bytes = ZERO_UUID,
) -> StoredRecord:
    """A committed offset. What its version has no room for is not in the value either: live is replayed state."""
    value = OffsetCommitValue(offset=offset, metadata=metadata or "", commit_timestamp=now_ms)
    version = OFFSET_COMMIT_VERSION
    if expire_timestamp_ms == NO_EXPIRY:
        value.leader_epoch, value.topic_id = leader_epoch, topic_id
    else:
        value.expire_timestamp, version = expire_timestamp_ms, OFFSET_COMMIT_WITH_EXPIRY_VERSION
    return StoredRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> StoredRecord:
    return StoredRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
