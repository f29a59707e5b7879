"""A member of a streams group, as an immutable value: what it reported, and what it has.

A member is one thread of a Kafka Streams application; members with the same process id share memory and state
directory, so one process never gets the same task twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.broker.coordinators.groups.streams.state import LEAVE, STABLE, MemberState, state_of_number
from ottla.broker.coordinators.groups.streams.tasks import NOTHING_OWNED, Epochs, OwnedTasks, partitions_of
from ottla.light_dataclasses import dataclass, field, replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.stored.streams_groups import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataValue,
)


class Endpoint(NamedTuple):
    """Where the application of a member answers questions about its state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    # what it reported
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    # what it has
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    revoking: OwnedTasks = NOTHING_OWNED  # to be revoked, not yet acknowledged by the member

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is STABLE and self.epoch == assignment_epoch


def with_member_record(member: StreamsMember, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
    """The member after its member record is applied."""
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={each.key: each.value for each in value.client_tags},
    )


def with_assignment_record(member: StreamsMember, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    """The member after its current assignment record is applied."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=state_of_number(value.state),
        assigned=OwnedTasks(
            _epochs(value.active_tasks, value.member_epoch),
            partitions_of(value.standby_tasks),
            partitions_of(value.warmup_tasks),
        ),
        revoking=OwnedTasks(
            _epochs(value.active_tasks_pending_revocation, value.member_epoch),
            partitions_of(value.standby_tasks_pending_revocation),
            partitions_of(value.warmup_tasks_pending_revocation),
        ),
    )


def without_tasks(member: StreamsMember) -> StreamsMember:
    """The member after the tombstone of its assignment."""
    return replace(member, epoch=LEAVE, previous_epoch=LEAVE, assigned=NOTHING_OWNED, revoking=NOTHING_OWNED)


def _epochs(entries: Iterable[StreamsGroupCurrentMemberAssignmentValueTaskIds], member_epoch: int) -> Epochs:
    found: dict[str, dict[int, int]] = {}
    for entry in entries:
        # Records before 4.2 do not say since when; the member's epoch is the strictest answer.
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            epochs = [member_epoch] * len(entry.partitions)
        if entry.partitions:
            found[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return found
