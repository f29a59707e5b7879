"""How a classic group comes together: call the members, wait for them, begin a generation, store its assignment.

    prepare ──▶ PreparingRebalance ──all joined, or JoinTimer──▶ complete_join ──▶ CompletingRebalance
                                                              └─ nobody left ───▶ Empty, written
    leader's SyncGroup ──▶ store_assignment ──replayed──▶ Stable

1. An empty group waits group.initial.rebalance.delay.ms for more members, again after each that came, and no longer
   than the rebalance time-out in all. Every other group waits until all its members are back.
2. Dynamic members that do not come back in time are dropped; static ones stay until their session ends.
3. The assignment is one record; its replay makes the group Stable, and the members hear of it when it is committed.
   When it cannot be written the group stays as it was, and the members have to join again.
4. A waiting request that another one replaces, or whose member is dropped, is answered; none is forgotten.
"""

from __future__ import annotations

import logging

from ottla.broker.coordinators.effects import CancelTimer, Effect, Reply, SetTimer, Write
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.classic_member import ClassicMember
from ottla.broker.coordinators.groups.group_responses import coordinator_error, join_answer, join_error, sync_error
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from ottla.broker.coordinators.groups.timers import JoinTimer, SessionTimer, SyncTimer
from ottla.errors import NONE, BrokerError, RebalanceInProgress, UnknownMemberId
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

log = logging.getLogger(__name__)


# -- members ----------------------------------------------------------------------------------------------------------


def session_timer(group: ClassicGroup, member: ClassicMember, now_ms: int, timeout_ms: int | None = None) -> SetTimer:
    """The member has shown that it is alive."""
    timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    return SetTimer(SessionTimer(group.group_id, member.member_id), now_ms + timeout_ms)


def fail_pending(member: ClassicMember, error: BrokerError, *, answered_id: str = "") -> list[Effect]:
    """Answer the pending JoinGroup and SyncGroup of the member with an error."""
    replies: list[Effect] = []
    if member.waiting_join is not None:
        token, api_version = member.waiting_join
        replies.append(Reply(token, join_error(error, api_version, member_id=answered_id)))
    if member.waiting_sync is not None:
        replies.append(Reply(member.waiting_sync.token, sync_error(error)))
    member.waiting_join = member.waiting_sync = None
    return replies


def drop_member(group: ClassicGroup, member_id: str) -> list[Effect]:
    """Take a member or a pending one out of the group. If it still waits it has to begin again, without an id."""
    member = group.remove(member_id)
    timer = CancelTimer(SessionTimer(group.group_id, member_id))
    return [timer] if member is None else [timer, *fail_pending(member, UnknownMemberId())]


# -- calling and waiting ----------------------------------------------------------------------------------------------


def rebalance_or_complete(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> list[Effect]:
    """Somebody came, left or changed: call the others, or go on if they were called already."""
    if group.state.can_rebalance:
        return prepare(group, settings, now_ms)
    return complete_if_all_joined(group, now_ms)


def prepare(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> list[Effect]:
    """Begin a rebalance; members that wait for an assignment have to join again."""
    effects: list[Effect] = []
    if group.state.current is COMPLETING_REBALANCE:
        effects += _call_back_from_sync(group, now_ms)
    effects.append(CancelTimer(SyncTimer(group.group_id)))
    if group.is_empty:
        return effects + _prepare_first(group, settings, now_ms)
    group.state.move_to(PREPARING_REBALANCE, now_ms)
    if group.all_have_joined:
        return effects + complete_join(group, now_ms)
    return [*effects, _join_deadline(group, now_ms)]


def _call_back_from_sync(group: ClassicGroup, now_ms: int) -> list[Effect]:
    effects: list[Effect] = []
    for member in group.members.values():
        member.assignment = b""
        if member.waiting_sync is not None:
            effects += [*fail_pending(member, RebalanceInProgress()), session_timer(group, member, now_ms)]
    return effects


def _prepare_first(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> list[Effect]:
    delay_ms = settings.group_initial_rebalance_delay_ms
    group.more_came = False
    group.first_delay_ms = delay_ms
    group.first_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.state.move_to(PREPARING_REBALANCE, now_ms)
    return [SetTimer(JoinTimer(group.group_id), now_ms + delay_ms)]


def _join_deadline(group: ClassicGroup, now_ms: int) -> SetTimer:
    return SetTimer(JoinTimer(group.group_id), now_ms + group.rebalance_timeout_ms)


def join_time_is_over(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> list[Effect]:
    if group.state.current is not PREPARING_REBALANCE:
        return []
    left_ms = group.first_delay_left_ms
    if not (group.state.is_first_rebalance and group.more_came and left_ms):
        return complete_join(group, now_ms)
    group.more_came = False
    group.first_delay_left_ms = max(left_ms - group.first_delay_ms, 0)
    group.first_delay_ms = min(settings.group_initial_rebalance_delay_ms, left_ms)
    return [SetTimer(JoinTimer(group.group_id), now_ms + group.first_delay_ms)]


def complete_if_all_joined(group: ClassicGroup, now_ms: int) -> list[Effect]:
    if group.state.current is not PREPARING_REBALANCE or group.state.is_first_rebalance:
        return []  # the first rebalance always waits for its timer
    return complete_join(group, now_ms) if group.all_have_joined else []


# -- a generation -----------------------------------------------------------------------------------------------------


def complete_join(group: ClassicGroup, now_ms: int) -> list[Effect]:
    """The time to join is over: begin the next generation with the members that joined."""
    effects: list[Effect] = [CancelTimer(JoinTimer(group.group_id))]
    for member in list(group.members.values()):
        if member.waiting_join is None and member.instance_id is None:
            effects += drop_member(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none came back: their sessions decide, not this rebalance.
        return [*effects, _join_deadline(group, now_ms)]
    group.begin_generation(now_ms)
    return effects + (_answer_joins(group, now_ms) if group.members else [_write_empty(group)])


def _answer_joins(group: ClassicGroup, now_ms: int) -> list[Effect]:
    effects: list[Effect] = []
    for member in group.members.values():
        if member.waiting_join is not None:
            token, api_version = member.waiting_join
            effects.append(Reply(token, current_generation(group, member, api_version)))
        member.waiting_join = None
        member.is_new = False
        effects.append(session_timer(group, member, now_ms))
    group.pending_sync = set(group.members)
    return [*effects, SetTimer(SyncTimer(group.group_id), now_ms + group.rebalance_timeout_ms)]


def current_generation(group: ClassicGroup, member: ClassicMember, api_version: int) -> JoinGroupResponse:
    """The JoinGroup answer of a member; only the leader's lists the other members."""
    protocol = group.protocol_name or ""
    is_leader = group.leader == member.member_id and group.state.current is COMPLETING_REBALANCE
    return join_answer(
        api_version,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=protocol,
        leader=group.leader or "",
        members=group.joined_members(group.members.values(), protocol) if is_leader else (),
    )


def _write_empty(group: ClassicGroup) -> Write:
    def failure(error: BrokerError) -> tuple[Reply, ...]:
        # After a crash the generation before comes back, and its members' sessions end as they did now.
        log.warning("group %s: that it is empty could not be written: %s", group.group_id, error)
        return ()

    return Write((group.record(),), (), failure)


def sync_time_is_over(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> list[Effect]:
    if group.state.current not in (COMPLETING_REBALANCE, STABLE) or not group.pending_sync:
        return []
    effects = [effect for member_id in sorted(group.pending_sync) for effect in drop_member(group, member_id)]
    return effects + prepare(group, settings, now_ms)


def store_assignment(group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> list[Effect]:
    """The leader has assigned the partitions: write that, and answer every pending SyncGroup."""
    assignments = {each.member_id: each.assignment for each in request.assignments}
    waiting = [member for member in group.members.values() if member.waiting_sync is not None]
    tokens = [member.waiting_sync.token for member in waiting if member.waiting_sync is not None]
    replies = tuple(
        Reply(token, assigned(group, assignments.get(member.member_id, b"")))
        for token, member in zip(tokens, waiting, strict=True)
    )
    for member in waiting:
        member.waiting_sync = None

    def failure(error: BrokerError) -> tuple[Reply, ...]:
        # The generation is still without an assignment: they ask for it again, or the sync timer drops them.
        group.pending_sync.update(member.member_id for member in waiting if member.member_id in group.members)
        refused = sync_error(coordinator_error(error))
        return tuple(Reply(token, refused) for token in tokens)

    sessions = [session_timer(group, member, now_ms) for member in waiting]
    return [Write((group.record(assignments=assignments),), replies, failure), *sessions]


def assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )
