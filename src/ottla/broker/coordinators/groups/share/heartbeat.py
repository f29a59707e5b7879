"""ShareGroupHeartbeat: join with epoch 0, stay with the current epoch, leave with -1.

    the member     is found or created; what it reports is written when it changed
    group epoch    moves when what the group reads changed, in the group or in the cluster
    partitions     that the share coordinator does not have yet: it is asked for them (InitializeStates) first
    target         is made when the group epoch moved, of the partitions that the share coordinator has
    the member     has its target at once: a partition may have several readers, so nobody need give up anything first;
                   what it unsubscribed from goes with the heartbeat that says so

1. A member gets its partitions when it joins, when it reports its topics, and when they changed.
2. A member one epoch behind did not get our answer, and is accepted. Every other epoch but the current one and 0 is
   FENCED_MEMBER_EPOCH.
3. All records of a heartbeat are one batch, and the answer goes out when they are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, Token, Write
from ottla.broker.coordinators.groups.consumer.assignors import GroupSpec, MemberSpec
from ottla.broker.coordinators.groups.consumer.member import NOTHING, wire_partitions
from ottla.broker.coordinators.groups.consumer.subscriptions import metadata_hash, topic_ids
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.coordinators.groups.share.assignor import ASSIGNORS
from ottla.broker.coordinators.groups.share.group import ShareGroup
from ottla.broker.coordinators.groups.share.member import ShareMember
from ottla.broker.coordinators.groups.share.partitions import SharedTopic, Topics, partitions_record
from ottla.broker.coordinators.groups.share.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import ShareGroupSettings
from ottla.errors import NONE, BrokerError, FencedMemberEpoch, GroupMaxSizeReached, InvalidRequest
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN: Final = 0
LEAVE: Final = -1
BY_RESET: Final = -1
SUBSCRIBED_LIMIT: Final = 10_000  # each heartbeat that changes something looks all of them up, in one step
"""The start offset of a share partition that nobody set: share.auto.offset.reset decides when somebody fetches."""


class InitializeStates(NamedTuple):
    """Effect: have the share coordinator begin these partitions, and tell the shard."""

    group_id: str
    state_epoch: int
    topics: Topics


class Environment(NamedTuple):
    """What every decision about share groups depends on besides the group itself."""

    cluster: ClusterView
    settings: ShareGroupSettings
    now_ms: int


# -- is it a request at all -------------------------------------------------------------------------------------------


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    _refuse(not request.member_id, "MemberId can't be empty.")
    _refuse(not request.group_id, "GroupId can't be empty.")
    _refuse(request.rack_id == "", "RackId can't be empty.")
    _refuse(request.member_epoch < LEAVE, "MemberEpoch is invalid.")
    too_many = len(request.subscribed_topic_names or ()) > SUBSCRIBED_LIMIT
    _refuse(too_many, f"A member subscribes to {SUBSCRIBED_LIMIT:,} topics at most; use several groups.")
    if request.member_epoch == JOIN:
        _refuse(not request.subscribed_topic_names, "SubscribedTopicNames must be set in first request.")


def _refuse(is_wrong: bool, why: str) -> None:
    if is_wrong:
        raise InvalidRequest(why)


# -- joining and staying ----------------------------------------------------------------------------------------------


def heartbeat(
    live: ShareGroup | None,
    token: Token,
    request: ShareGroupHeartbeatRequest,
    context: RequestContext,
    environment: Environment,
) -> list[Effect | InitializeStates]:
    """`live` is the group in the shard, if there is one already. Raises the error for the client."""
    draft = Draft(live or ShareGroup(request.group_id))
    before = _find_member(draft.group, request, environment.settings.max_size)
    after = _with_request_fields(before, request, context)
    if after != before or before.member_id not in draft.group.members:
        draft.write(member_record(request.group_id, after))
    begin = _missing(draft.group, environment.cluster)
    _update_group(draft, environment, live, must_move=before.topics != after.topics)
    if begin and (partitions := draft.group.partitions.with_initializing(begin)) != draft.group.partitions:
        draft.write(partitions_record(request.group_id, partitions))
    update_target(draft, environment)
    reconciled = _reconcile(draft, draft.group.members[after.member_id], environment.cluster)
    answer = _answer(request, before, reconciled, environment.settings)
    effects: list[Effect | InitializeStates] = [
        Write(tuple(draft.records), (Reply(token, answer),), failing(token, heartbeat_error)),
        session_timer(request.group_id, after.member_id, environment),
    ]
    if begin:
        effects.append(InitializeStates(request.group_id, draft.group.epoch, begin))
    return effects


def _find_member(group: ShareGroup, request: ShareGroupHeartbeatRequest, max_size: int) -> ShareMember:
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != JOIN:
            group.member(request.member_id)
        if len(group.members) >= max_size:
            raise GroupMaxSizeReached(f"The share group has reached its maximum capacity of {max_size} members.")
        return ShareMember(request.member_id)
    if request.member_epoch not in (JOIN, member.epoch, member.previous_epoch) or request.member_epoch > member.epoch:
        raise FencedMemberEpoch(
            f"The share group member has a {'smaller' if request.member_epoch < member.epoch else 'greater'} member "
            f"epoch ({request.member_epoch}) than the one known by the group coordinator ({member.epoch}). The member "
            "must abandon all its partitions and rejoin."
        )
    return member


def _with_request_fields(
    member: ShareMember, request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareMember:
    topics = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if topics is None else frozenset(topics),
        client_id=context.client_id,
        client_host=context.client_host,
    )


def _missing(group: ShareGroup, cluster: ClusterView) -> dict[bytes, SharedTopic]:
    """Partitions that members want to read, the share coordinator does not have, and is not being asked for."""
    if group.is_covered and group.is_metadata_checked:
        return {}
    found: dict[bytes, SharedTopic] = {}
    for name in sorted(group.subscribed_topics()):
        topic_id, count = cluster.topic_id(name), cluster.partition_count(name)
        if topic_id is None or count is None:
            continue
        missing = group.partitions.missing(topic_id, count)
        asked = {partition for topic, partition in group.being_initialized if topic == topic_id}
        if missing - asked:
            found[topic_id] = SharedTopic(name, missing - asked)
    return found


def _update_group(
    draft: Draft[ShareGroup], environment: Environment, live: ShareGroup | None, *, must_move: bool
) -> None:
    """Move the group epoch if what the group reads, or can read, has changed."""
    group = draft.group
    must_move = must_move or group.epoch == 0  # a member could not tell epoch 0 from not having joined
    if not must_move and group.is_metadata_checked and group.is_covered:
        return
    is_assigned = group.assignment_epoch >= group.epoch  # else what is new is assigned with the next target anyway
    must_move = must_move or (is_assigned and bool(_uncovered(group, environment.cluster)))
    move_epoch(draft, environment, must_move=must_move)
    if live is not None:
        live.checked_epoch = draft.group.epoch
        live.is_covered = not must_move


def _uncovered(group: ShareGroup, cluster: ClusterView) -> set[tuple[bytes, int]]:
    """Partitions that could be assigned, and are not."""
    if not group.members:
        return set()
    ids = topic_ids(cluster, group.subscribed_topics())
    could = {
        (topic_id, each)
        for topic_id, topic in group.partitions.initialized.items()
        if topic_id in ids
        for each in topic.partitions
    }
    return could - group.assigned_partitions()


def move_epoch(draft: Draft[ShareGroup], environment: Environment, *, must_move: bool) -> None:
    group = draft.group
    found = metadata_hash(environment.cluster, group.subscribed_topics())
    if must_move or found != group.metadata_hash:
        draft.write(epoch_record(group.group_id, group.epoch + 1, found))


def update_target(draft: Draft[ShareGroup], environment: Environment) -> None:
    """Make the target follow the group, if it is behind and its time has come."""
    group = draft.group
    last_ms, interval_ms = group.assignment_timestamp_ms, environment.settings.assignment_interval_ms
    # An assignment of nothing, because nothing had begun yet, delays no other.
    is_time = last_ms == 0 or environment.now_ms >= last_ms + interval_ms or not any(group.targets.values())
    if group.assignment_epoch >= group.epoch or not is_time:
        return
    targets = ASSIGNORS[environment.settings.assignor](_spec(group, environment.cluster), _assignable(group))
    for member_id in sorted(group.members):
        target = targets.get(member_id, NOTHING)
        if group.targets.get(member_id) != target:
            draft.write(target_record(group.group_id, member_id, target))
    draft.write(target_epoch_record(group.group_id, group.epoch, environment.now_ms))


def _spec(group: ShareGroup, cluster: ClusterView) -> GroupSpec:
    counts = {
        topic_id: cluster.partition_count(name) or 0
        for name in group.subscribed_topics()
        if (topic_id := cluster.topic_id(name)) is not None
    }
    members = {
        member_id: MemberSpec(topic_ids(cluster, member.topics), group.targets.get(member_id, NOTHING))
        for member_id, member in group.members.items()
    }
    return GroupSpec(members, counts)


def _assignable(group: ShareGroup) -> dict[bytes, frozenset[int]]:
    return {topic_id: topic.partitions for topic_id, topic in group.partitions.initialized.items()}


def _reconcile(draft: Draft[ShareGroup], member: ShareMember, cluster: ClusterView) -> ShareMember:
    """Let the member have its target, but nothing that it is not subscribed to any more: the next target, which knows
    that, may be seconds away (assignment_interval_ms)."""
    group = draft.group
    target = group.targets.get(member.member_id, NOTHING)
    if group.assignment_epoch < group.epoch:
        subscribed = topic_ids(cluster, member.topics)
        target = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
    if member.epoch == group.assignment_epoch and member.assigned == target:
        return member
    reconciled = replace(member, epoch=group.assignment_epoch, previous_epoch=member.epoch, assigned=dict(target))
    draft.write(current_record(group.group_id, reconciled))
    return reconciled


def _answer(
    request: ShareGroupHeartbeatRequest, before: ShareMember, after: ShareMember, settings: ShareGroupSettings
) -> ShareGroupHeartbeatResponse:
    answer = ShareGroupHeartbeatResponse(
        error_code=NONE,
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    is_full = request.member_epoch == JOIN or request.subscribed_topic_names is not None
    is_behind = request.member_epoch != before.epoch  # it did not get our last answer
    if is_full or is_behind or after.assigned != before.assigned:
        answer.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in wire_partitions(after.assigned)
            ]
        )
    return answer


def heartbeat_error(error: BrokerError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=error.code, error_message=error.brief, member_epoch=0, heartbeat_interval_ms=0
    )


def session_timer(group_id: str, member_id: str, environment: Environment) -> SetTimer:
    at_ms = environment.now_ms + environment.settings.session_timeout_ms
    return SetTimer(SessionTimer(group_id, member_id), at_ms)


# -- leaving ----------------------------------------------------------------------------------------------------------


def remove_members(
    group: ShareGroup,
    member_ids: Iterable[str],
    environment: Environment,
    replies: tuple[Reply, ...],
    failure: Callable[[BrokerError], tuple[Reply, ...]],
) -> Write:
    """Put members out: their records go, and the group moves on."""
    draft = Draft(group)
    for member_id in member_ids:
        draft.write(*member_tombstones(group.group_id, member_id))
    move_epoch(draft, environment, must_move=True)
    return Write(tuple(draft.records), replies, failure)


def left_answer(request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=NONE, member_id=request.member_id, member_epoch=LEAVE, heartbeat_interval_ms=0
    )
