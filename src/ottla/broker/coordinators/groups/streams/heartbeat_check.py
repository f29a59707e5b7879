"""StreamsGroupHeartbeat: what is no request at all, before anything of the group is looked at.

Kafka 4.3 knows fields for static members, warm-up tasks, task offsets and topics by regular expression, and refuses
them; so does this, in Kafka's words. Clients of 4.3 do not send them.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.coordinators.groups.streams.configuring import ConfiguredTopology
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.state import JOIN, STATIC_LEAVE
from ottla.broker.coordinators.groups.streams.tasks import Partitions, Tasks, is_part_of, partitions_of
from ottla.errors import FencedMemberEpoch, InvalidRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

SUBTOPOLOGIES_MAX: Final = 1_000
"""Its topology is written down as one record, and everybody waits for that."""


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse_what_is_not_served(request)
    epoch = request.member_epoch
    _refuse(not request.member_id, "MemberId can't be empty.")
    _refuse(not request.group_id, "GroupId can't be empty.")
    _refuse(request.rack_id == "", "RackId can't be empty.")
    if epoch == JOIN:
        _check_join(request)
    elif epoch == STATIC_LEAVE:
        _refuse(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse(epoch < STATIC_LEAVE, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(each is not None for each in tasks):
        _refuse(any(each is None for each in tasks), "If one task-type is non-null, all must be non-null.")
    if epoch != JOIN:
        _refuse(request.topology is not None, "Topology can only be provided when (re-)joining.")


def _refuse_what_is_not_served(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    if request.topology is not None:
        count = len(request.topology.subtopologies)
        _refuse(
            count > SUBTOPOLOGIES_MAX, f"A topology has {count} subtopologies; at most {SUBTOPOLOGIES_MAX} are served."
        )
        by_regex = any(each.source_topic_regex for each in request.topology.subtopologies)
        _refuse(by_regex, "Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
    _refuse(request.active_tasks != [], "ActiveTasks must be empty when (re-)joining.")
    _refuse(request.standby_tasks != [], "StandbyTasks must be empty when (re-)joining.")
    _refuse(request.warmup_tasks != [], "WarmupTasks must be empty when (re-)joining.")
    _refuse(request.topology is None, "Topology must be non-null when (re-)joining.")


def _refuse(is_wrong: bool, why: str) -> None:
    if is_wrong:
        raise InvalidRequest(why)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """What the member says it has; None when it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(partitions_of(active), partitions_of(standby), partitions_of(warmup))


def check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """A member one epoch behind is accepted if it has no more than was assigned: it did not get our answer."""
    if epoch in (JOIN, member.epoch):
        return
    is_behind = epoch < member.epoch
    if is_behind and epoch == member.previous_epoch and owned is not None and _is_assigned(owned, member):
        return
    raise FencedMemberEpoch(
        f"The streams group member has a {'smaller' if is_behind else 'greater'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _is_assigned(owned: Tasks, member: StreamsMember) -> bool:
    has = member.assigned
    return (
        is_part_of(owned.active, has.active)
        and is_part_of(owned.standby, has.standby)
        and is_part_of(owned.warmup, has.warmup)
    )


def check_tasks(owned: Tasks | None, configured: ConfiguredTopology) -> None:
    """A member cannot have tasks that the topology does not have."""
    for tasks in () if owned is None else owned:
        _check_tasks_of_role(tasks, configured)


def _check_tasks_of_role(tasks: Partitions, configured: ConfiguredTopology) -> None:
    for name, numbers in tasks.items():
        count = configured.tasks.get(name)
        if count is None:
            raise InvalidRequest(f"Subtopology {name} does not exist in the topology.")
        wrong = min((each for each in numbers if not 0 <= each < count), default=None)
        if wrong is not None:
            raise InvalidRequest(
                f"Task {wrong} for subtopology {name} is invalid. Number of tasks for this subtopology: {count}"
            )
