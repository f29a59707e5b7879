"""Classic groups as their members see them: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and sessions that end.

Joining is in classic_join.py, the rebalance of a group in rebalance.py; here is what a member may ask afterwards.

1. A member is known by its id; a static one by its instance id too, and a request with both must name the same member
   (FENCED_INSTANCE_ID). Then the generation must be the current one (ILLEGAL_GENERATION).
2. A heartbeat during PreparingRebalance keeps the member alive and calls it back (REBALANCE_IN_PROGRESS).
3. Members leave one by one or many at once, by id, or by instance id alone (an administrator); each gets its own code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ottla.broker.coordinators.effects import Effect, Reply, Token
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.classic_join import ClassicJoin
from ottla.broker.coordinators.groups.classic_member import ClassicMember, Waiting
from ottla.broker.coordinators.groups.group import GroupProtocol
from ottla.broker.coordinators.groups.group_responses import (
    after_commit,
    heartbeat_error,
    leave_answer,
    leave_error,
    leaving_members,
    left,
    sync_error,
)
from ottla.broker.coordinators.groups.rebalance import (
    assigned,
    complete_if_all_joined,
    complete_join,
    drop_member,
    fail_pending,
    join_time_is_over,
    prepare,
    rebalance_or_complete,
    session_timer,
    store_assignment,
    sync_time_is_over,
)
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from ottla.broker.coordinators.groups.timers import CallTimer, ConsumerTimer, JoinTimer, SessionTimer, SyncTimer
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    NONE,
    BrokerError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    NotCoordinator,
    RebalanceInProgress,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest

PROTOCOL_TOLD_SINCE = 5  # SyncGroup


class ClassicGroupProtocol(GroupProtocol[ClassicGroup]):
    def __init__(self, settings: GroupSettings, new_uuid: Callable[[], str]) -> None:
        self._settings = settings
        self._new_uuid = new_uuid

    # -- requests ----------------------------------------------------------------------------------------------------

    def join(
        self, group: ClassicGroup, token: Token, request: JoinGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return ClassicJoin(
            group, token, request, context, now_ms, settings=self._settings, new_uuid=self._new_uuid
        ).effects()

    def sync(
        self, group: ClassicGroup, token: Token, request: SyncGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        try:
            member = _check_sync(group, request, context.api_version)
        except BrokerError as error:
            return [Reply(token, sync_error(error))]
        group.pending_sync.discard(member.member_id)
        if group.state.current is STABLE:
            # The record that made the group stable may not be committed yet.
            return [after_commit(token, assigned(group, member.assignment), sync_error)]
        effects: list[Effect] = []
        if member.waiting_sync is not None:
            effects.append(Reply(member.waiting_sync.token, sync_error(RebalanceInProgress())))
        member.waiting_sync = Waiting(token, context.api_version)
        return effects + (store_assignment(group, request, now_ms) if group.leader == member.member_id else [])

    def heartbeat(
        self, group: ClassicGroup, token: Token, request: HeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
            _check_generation(group, request.generation_id)
        except BrokerError as error:
            return [Reply(token, heartbeat_error(error))]
        is_called = group.state.current is PREPARING_REBALANCE
        code = RebalanceInProgress.code if is_called else NONE
        return [session_timer(group, member, now_ms), Reply(token, HeartbeatResponse(error_code=code))]

    def leave(
        self, group: ClassicGroup, token: Token, request: LeaveGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        results: list[MemberResponse] = []
        for identity in leaving_members(request, context.api_version):
            gone, result = _leave(group, identity)
            effects += gone
            results.append(result)
        answer = leave_answer(results, context.api_version)
        if all(result.error_code for result in results):
            return [*effects, Reply(token, answer)]
        if group.state.current is PREPARING_REBALANCE:
            effects += complete_if_all_joined(group, now_ms)
        elif group.state.current in (STABLE, COMPLETING_REBALANCE):
            effects += rebalance_or_complete(group, self._settings, now_ms)
        # If the group is empty now, that is being written: the answer of the last member waits for it too.
        return [*effects, after_commit(token, answer, leave_error)]

    def offsets_committed(self, group: ClassicGroup, member_id: str, now_ms: int) -> list[Effect]:
        member = group.members.get(member_id)
        if member is None or group.state.current not in (STABLE, PREPARING_REBALANCE):
            return []
        return [session_timer(group, member, now_ms)]

    # -- time --------------------------------------------------------------------------------------------------------

    def timer_fired(self, group: ClassicGroup, key: Hashable, now_ms: int) -> list[Effect]:
        match key:
            case SessionTimer(member_id=member_id):
                return self._session_is_over(group, member_id, now_ms)
            case JoinTimer():
                return join_time_is_over(group, self._settings, now_ms)
            case SyncTimer():
                return sync_time_is_over(group, self._settings, now_ms)
            case CallTimer():
                return prepare(group, self._settings, now_ms) if group.state.current is STABLE else []
            case ConsumerTimer():
                return []  # of the consumer group that this one was
        raise TypeError(f"a classic group has no timer {key!r}")

    def _session_is_over(self, group: ClassicGroup, member_id: str, now_ms: int) -> list[Effect]:
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending:
            return []
        if member is not None and member.is_alive_without_heartbeat:
            return []
        effects = drop_member(group, member_id)
        if group.state.current is PREPARING_REBALANCE:
            return effects + (complete_join(group, now_ms) if group.all_have_joined else [])
        if member is not None and group.state.current in (STABLE, COMPLETING_REBALANCE):
            return effects + prepare(group, self._settings, now_ms)
        return effects

    # -- coming and going --------------------------------------------------------------------------------------------

    def loaded(self, group: ClassicGroup, now_ms: int) -> list[Effect]:
        effects: list[Effect] = [session_timer(group, member, now_ms) for member in group.members.values()]
        if len(group.members) > self._settings.group_max_size:
            # The limit was lowered: call all, and the last to come back are turned away.
            effects += prepare(group, self._settings, now_ms)
        return effects

    def unload(self, group: ClassicGroup) -> list[Effect]:
        effects = [
            effect
            for member in group.members.values()
            for effect in fail_pending(member, NotCoordinator(), answered_id=member.member_id)
        ]
        group.die(group.state.since_ms)
        return effects


def _check_sync(group: ClassicGroup, request: SyncGroupRequest, api_version: int) -> ClassicMember:
    if api_version >= PROTOCOL_TOLD_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol("since version 5 a member says which protocol it joined")
    member = group.check_member(request.member_id, request.group_instance_id)
    _check_generation(group, request.generation_id)
    _check_protocol(request.protocol_type, group.protocol_type)
    _check_protocol(request.protocol_name, group.protocol_name)
    if group.state.current is PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group {group.group_id} is calling its members")
    return member


def _check_generation(group: ClassicGroup, generation: int) -> None:
    if generation != group.generation:
        raise IllegalGeneration(f"group {group.group_id} is at {group.generation}, not at {generation}")


def _check_protocol(requested: str | None, ours: str | None) -> None:
    if requested is not None and ours is not None and requested != ours:
        raise InconsistentGroupProtocol(f"the request says {requested}, the group has chosen {ours}")


def _leave(group: ClassicGroup, identity: MemberIdentity) -> tuple[list[Effect], MemberResponse]:
    member_id = identity.member_id
    try:
        if not member_id and identity.group_instance_id is not None:
            # An administrator removes a static member and does not know its id.
            member_id = group.static_ids.get(identity.group_instance_id, "")
        if member_id not in group.pending:
            group.check_member(member_id, identity.group_instance_id)
    except BrokerError as error:
        return [], left(identity, error.code)
    return drop_member(group, member_id), left(identity)
