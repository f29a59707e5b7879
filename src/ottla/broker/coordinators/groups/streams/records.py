"""The records of streams groups, as Kafka 4.3 writes them (all of version 0), and the tombstones that remove them.

Partitions and names are sorted, so that the same state is always the same bytes. The topology is kept as its first
member sent it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.broker.coordinators.effects import StoredRecord
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.tasks import Epochs, Partitions, Tasks
from ottla.protocol.schema import Message
from ottla.protocol.stored import streams_groups as stored

KINDS: Final[dict[type[Message], type[Message]]] = {
    stored.StreamsGroupMetadataKey: stored.StreamsGroupMetadataValue,
    stored.StreamsGroupTopologyKey: stored.StreamsGroupTopologyValue,
    stored.StreamsGroupMemberMetadataKey: stored.StreamsGroupMemberMetadataValue,
    stored.StreamsGroupTargetAssignmentMetadataKey: stored.StreamsGroupTargetAssignmentMetadataValue,
    stored.StreamsGroupTargetAssignmentMemberKey: stored.StreamsGroupTargetAssignmentMemberValue,
    stored.StreamsGroupCurrentMemberAssignmentKey: stored.StreamsGroupCurrentMemberAssignmentValue,
}

StreamsKey: TypeAlias = (
    stored.StreamsGroupMetadataKey
    | stored.StreamsGroupTopologyKey
    | stored.StreamsGroupMemberMetadataKey
    | stored.StreamsGroupTargetAssignmentMetadataKey
    | stored.StreamsGroupTargetAssignmentMemberKey
    | stored.StreamsGroupCurrentMemberAssignmentKey
)


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> StoredRecord:
    value = stored.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            stored.LastAssignmentConfig(key=key, value=each) for key, each in sorted(configs.items())
        ],
    )
    return StoredRecord(stored.StreamsGroupMetadataKey(group_id=group_id), value)


def topology_record(group_id: str, value: stored.StreamsGroupTopologyValue) -> StoredRecord:
    return StoredRecord(stored.StreamsGroupTopologyKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> StoredRecord:
    endpoint = member.endpoint
    value = stored.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else stored.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[stored.KeyValue(key=key, value=each) for key, each in sorted(member.client_tags.items())],
    )
    return StoredRecord(stored.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value)


def target_record(group_id: str, member_id: str, target: Tasks) -> StoredRecord:
    value = stored.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target(target.active),
        standby_tasks=_target(target.standby),
        warmup_tasks=_target(target.warmup),
    )
    return StoredRecord(stored.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> StoredRecord:
    value = stored.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return StoredRecord(stored.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: StreamsMember) -> StoredRecord:
    assigned, revoking = member.assigned, member.revoking
    value = stored.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_current(assigned.standby),
        warmup_tasks=_current(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoking.active),
        standby_tasks_pending_revocation=_current(revoking.standby),
        warmup_tasks_pending_revocation=_current(revoking.warmup),
    )
    key = stored.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return StoredRecord(key, value)


def _target(tasks: Partitions) -> list[stored.TaskIds]:
    return [stored.TaskIds(subtopology_id=name, partitions=sorted(each)) for name, each in sorted(tasks.items())]


def _current(tasks: Partitions) -> list[stored.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        stored.StreamsGroupCurrentMemberAssignmentValueTaskIds(subtopology_id=name, partitions=sorted(each))
        for name, each in sorted(tasks.items())
    ]


def _with_epochs(tasks: Epochs) -> list[stored.StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        stored.StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=name,
            partitions=sorted(each),
            assignment_epochs=[each[partition] for partition in sorted(each)],
        )
        for name, each in sorted(tasks.items())
    ]


# -- tombstones -------------------------------------------------------------------------------------------------------


def member_tombstones(group_id: str, member_id: str) -> tuple[StoredRecord, ...]:
    """Current, then target, then the member: Kafka refuses to replay them in another order."""
    return (
        StoredRecord(stored.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        StoredRecord(stored.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        StoredRecord(stored.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_tombstones(group_id: str) -> tuple[StoredRecord, ...]:
    """What removes a group without members."""
    return (
        StoredRecord(stored.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        StoredRecord(stored.StreamsGroupMetadataKey(group_id=group_id), None),
        StoredRecord(stored.StreamsGroupTopologyKey(group_id=group_id), None),
    )
