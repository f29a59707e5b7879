"""A partition as a record, and what happened between two states of it as a record.

Merging follows one rule, and writing must fit it, or two readers would see two epochs:

1. The partition epoch grows by one with every PartitionChangeRecord.
2. The leader epoch grows by one if, and only if, the record names a leader, also when it is the one that led before.
3. Directories go with replicas, one for one. What is not named stays; where nobody has ever said, it is MIGRATING.
"""

from __future__ import annotations

from typing import Final, TypeVar

from ottla.cluster.changes import IllegalChange
from ottla.cluster.metadata_log.levels import DIRECTORIES_SINCE, ELR_SINCE
from ottla.cluster.model import MIGRATING_DIRECTORY, Partition
from ottla.light_dataclasses import replace
from ottla.protocol.metadata_log.topics import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)

RECOVERED: Final = 0
RECOVERING: Final = 1

T = TypeVar("T")


def partition_of(record: PartitionRecord) -> Partition:
    replicas = tuple(record.replicas)
    return Partition(
        replicas=replicas,
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        adding=tuple(record.adding_replicas),
        removing=tuple(record.removing_replicas),
        directories=_directories(replicas, record.directories),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        recovering=_recovering(record.leader_recovery_state),
    )


def record_of(topic_id: bytes, index: int, partition: Partition, metadata_version: int) -> PartitionRecord:
    """All of a partition; what the level does not know is left out."""
    has_elr = metadata_version >= ELR_SINCE
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=RECOVERING if partition.recovering else RECOVERED,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(_directories(partition.replicas, partition.directories))
        if metadata_version >= DIRECTORIES_SINCE
        else [],
        eligible_leader_replicas=list(partition.elr) if has_elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr) if has_elr and partition.last_known_elr else None,
    )


def merged(partition: Partition, record: PartitionChangeRecord) -> Partition:
    """The partition after the change."""
    names_leader = record.leader != NO_LEADER_CHANGE
    replicas = _or(record.replicas, partition.replicas)
    state = record.leader_recovery_state
    return Partition(
        replicas=replicas,
        isr=_or(record.isr, partition.isr),
        leader=record.leader if names_leader else partition.leader,
        leader_epoch=partition.leader_epoch + names_leader,
        partition_epoch=partition.partition_epoch + 1,
        adding=_or(record.adding_replicas, partition.adding),
        removing=_or(record.removing_replicas, partition.removing),
        directories=_directories(replicas, _or(record.directories, partition.directories)),
        elr=_or(record.eligible_leader_replicas, partition.elr),
        last_known_elr=_or(record.last_known_elr, partition.last_known_elr),
        recovering=partition.recovering if state == NO_RECOVERY_CHANGE else _recovering(state),
    )


def change_record(
    topic_id: bytes, index: int, before: Partition, after: Partition, metadata_version: int
) -> PartitionChangeRecord:
    """What makes `after` of `before`; IllegalChange when no record can."""
    record = PartitionChangeRecord(
        partition_id=index,
        topic_id=topic_id,
        isr=_changed(before.isr, after.isr),
        leader=after.leader if after.leader_epoch != before.leader_epoch else NO_LEADER_CHANGE,
        replicas=_changed(before.replicas, after.replicas),
        removing_replicas=_changed(before.removing, after.removing),
        adding_replicas=_changed(before.adding, after.adding),
    )
    if after.recovering != before.recovering:
        record.leader_recovery_state = RECOVERING if after.recovering else RECOVERED
    if metadata_version >= DIRECTORIES_SINCE:
        record.directories = _changed(before.directories, _directories(after.replicas, after.directories))
    if metadata_version >= ELR_SINCE:
        record.eligible_leader_replicas = _changed(before.elr, after.elr)
        record.last_known_elr = _changed(before.last_known_elr, after.last_known_elr)
    _check(before, after, record, metadata_version)
    return record


def _check(before: Partition, after: Partition, record: PartitionChangeRecord, metadata_version: int) -> None:
    expected = replace(after, directories=_directories(after.replicas, after.directories))
    if metadata_version < DIRECTORIES_SINCE:
        expected = replace(expected, directories=merged(before, record).directories)
    if metadata_version < ELR_SINCE:
        expected = replace(expected, elr=before.elr, last_known_elr=before.last_known_elr)
    if merged(before, record) != expected:
        raise IllegalChange(f"no record of the metadata log makes {after} of {before}")


def _or(values: list[T] | None, present: tuple[T, ...]) -> tuple[T, ...]:
    return present if values is None else tuple(values)


def _changed(before: tuple[T, ...], after: tuple[T, ...]) -> list[T] | None:
    return None if before == after else list(after)


def _directories(replicas: tuple[int, ...], directories: list[bytes] | tuple[bytes, ...]) -> tuple[bytes, ...]:
    if all(directory == MIGRATING_DIRECTORY for directory in directories):
        return (MIGRATING_DIRECTORY,) * len(replicas)
    if len(directories) != len(replicas):
        raise IllegalChange(f"{len(replicas)} replicas are said to be in {len(directories)} directories")
    return tuple(directories)


def _recovering(state: int) -> bool:
    if state not in (RECOVERED, RECOVERING):
        raise IllegalChange(f"{state} is no state of a leader's recovery; known are {RECOVERED} and {RECOVERING}")
    return state == RECOVERING
