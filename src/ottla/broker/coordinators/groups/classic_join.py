"""JoinGroup for classic groups: which member may join, under which id, and whether that starts a rebalance.

    unknown client   from version 4 on it gets an id (MEMBER_ID_REQUIRED) and has to come back with it, so that a
                     client that retries does not become a second member; before, it joins at once
    static member    keeps its place by group.instance.id: a restart replaces the old process, which is fenced
    known member     joins the rebalance; in a stable group only a changed member or the leader starts one

1. A restarted static member of a Stable group starts no rebalance while the chosen protocol stays: its new id is
   written, and it is answered with the current generation. As leader it may skip the assignment from version 9 on;
   before, the answer names its old member id as leader, so that it does not assign.
2. When that write fails the old member is still the one.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.coordinators.effects import Effect, Reply, SetTimer, Token, Write
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.classic_member import ClassicMember, Waiting, protocols_of
from ottla.broker.coordinators.groups.group_responses import coordinator_error, join_answer, join_error
from ottla.broker.coordinators.groups.rebalance import (
    complete_if_all_joined,
    current_generation,
    drop_member,
    fail_pending,
    prepare,
    rebalance_or_complete,
    session_timer,
)
from ottla.broker.coordinators.groups.settings import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    PENDING_MEMBERS_LIMIT,
    GroupSettings,
)
from ottla.broker.coordinators.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    BrokerError,
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownServerError,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


class ClassicJoin:
    """One JoinGroup request at one group. `new_uuid` makes the unique part of a member id."""

    def __init__(
        self,
        group: ClassicGroup,
        token: Token,
        request: JoinGroupRequest,
        context: RequestContext,
        now_ms: int,
        *,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
    ) -> None:
        self.group = group
        self.request = request
        self.context = context
        self.now_ms = now_ms
        self.settings = settings
        self.new_uuid = new_uuid
        self.waiting = Waiting(token, context.api_version)
        self.protocols = protocols_of(request)
        # Version 0 had one time-out for both.
        self.rebalance_timeout_ms = (
            request.session_timeout_ms if context.api_version == 0 else request.rebalance_timeout_ms
        )

    def effects(self) -> list[Effect]:
        member_id = self.request.member_id
        if not self._has_room():
            return [*drop_member(self.group, member_id), self._refusal(GroupMaxSizeReached())]
        if not self.group.supports(self.request.protocol_type, self.protocols):
            return [self._refusal(InconsistentGroupProtocol(), member_id)]
        if member_id:
            return self._known()
        return self._new_dynamic() if self.request.group_instance_id is None else self._new_static()

    def _refusal(self, error: BrokerError, member_id: str = "") -> Reply:
        return Reply(self.waiting.token, join_error(error, self.waiting.api_version, member_id=member_id))

    def _has_room(self) -> bool:
        group, member = self.group, self.group.members.get(self.request.member_id)
        limit = self.settings.group_max_size
        if group.state.current is EMPTY:
            return True
        if group.state.current is PREPARING_REBALANCE:
            # Waiting members are counted: a group above a limit that was lowered loses the last to come back.
            return (member is not None and member.waiting_join is not None) or len(group.waiting_to_join) < limit
        return member is not None or len(group.members) < limit

    # -- new members -------------------------------------------------------------------------------------------------

    def _new_dynamic(self) -> list[Effect]:
        member_id = f"{self.context.client_id}-{self.new_uuid()}"
        if self.context.api_version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(member_id)
        if len(self.group.pending) >= PENDING_MEMBERS_LIMIT:
            return [self._refusal(GroupMaxSizeReached())]
        self.group.pending.add(member_id)
        timer = SetTimer(SessionTimer(self.group.group_id, member_id), self.now_ms + self.request.session_timeout_ms)
        return [timer, self._refusal(MemberIdRequired(), member_id)]

    def _new_static(self) -> list[Effect]:
        instance_id = self.request.group_instance_id or ""
        member_id = f"{instance_id}-{self.new_uuid()}"
        old_id = self.group.static_ids.get(instance_id)
        return self._add(member_id) if old_id is None else self._replace(old_id, member_id)

    def _add(self, member_id: str) -> list[Effect]:
        group = self.group
        member = ClassicMember(
            member_id=member_id,
            instance_id=self.request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            is_new=True,
            waiting_join=self.waiting,
        )
        if not group.members:
            group.protocol_type = self.request.protocol_type
        if group.state.is_first_rebalance:
            group.more_came = True
        group.add(member)
        # Until it hears its id it cannot send heartbeats, so its session does not count yet; but somebody who went
        # away must not stay for ever.
        patience = session_timer(group, member, self.now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
        return [patience, *rebalance_or_complete(group, self.settings, self.now_ms)]

    # -- static members that come back -------------------------------------------------------------------------------

    def _replace(self, old_id: str, member_id: str) -> list[Effect]:
        old = self.group.members[old_id]
        member = replace(
            old,
            member_id=member_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            is_new=False,
            waiting_join=None,
            waiting_sync=None,
        )
        if self.group.state.current is STABLE:
            members = [member if each is old else each for each in self.group.members.values()]
            if self.group.chosen_protocol(members) == self.group.protocol_name:
                return self._store_replacement(old_id, member, members)
        return self._replace_and_rebalance(old, member)

    def _store_replacement(self, old_id: str, member: ClassicMember, members: list[ClassicMember]) -> list[Effect]:
        group, old_leader = self.group, self.group.leader
        leader = member.member_id if old_leader == old_id else old_leader
        may_skip = self.waiting.api_version >= SKIP_ASSIGNMENT_SINCE
        skips = may_skip and leader == member.member_id
        protocol = group.protocol_name or ""
        answer = join_answer(
            self.waiting.api_version,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=protocol,
            leader=(leader if may_skip else old_leader) or "",
            members=group.joined_members(members, protocol) if skips else (),
            skip_assignment=skips,
        )
        group.replacement = member
        write = Write((group.record(members, leader=leader),), (Reply(self.waiting.token, answer),), self._not_replaced)
        # The old member's timer runs on: without the old member it means nothing, and if the write fails it is needed.
        return [write, session_timer(group, member, self.now_ms)]

    def _not_replaced(self, error: BrokerError) -> tuple[Reply, ...]:
        self.group.replacement = None
        answer = join_answer(
            self.waiting.api_version,
            member_id="",
            error_code=coordinator_error(error).code,
            generation=self.group.generation,
            protocol_type=self.group.protocol_type,
            protocol_name=self.group.protocol_name,
            leader=self.group.leader or "",
        )
        return (Reply(self.waiting.token, answer),)

    def _replace_and_rebalance(self, old: ClassicMember, member: ClassicMember) -> list[Effect]:
        group = self.group
        effects = fail_pending(old, FencedInstanceId(), answered_id=old.member_id)
        was_leader = group.leader == old.member_id
        group.remove(old.member_id)
        member.waiting_join = self.waiting
        group.add(member)
        if was_leader:
            group.leader = member.member_id
        effects.append(session_timer(group, member, self.now_ms))
        if group.state.current is PREPARING_REBALANCE:
            return effects + complete_if_all_joined(group, self.now_ms)
        # In CompletingRebalance too: the leader knows the old id and would assign to it.
        return effects + prepare(group, self.settings, self.now_ms)

    # -- known members -----------------------------------------------------------------------------------------------

    def _known(self) -> list[Effect]:
        group, member_id = self.group, self.request.member_id
        if member_id in group.pending:
            if self.request.group_instance_id is not None:
                return [self._refusal(UnknownServerError("a static member is never asked to come again"), member_id)]
            return self._add(member_id)
        try:
            member = group.check_member(member_id, self.request.group_instance_id)
        except BrokerError as error:
            return [self._refusal(error, member_id)]
        if self._is_news(member):
            return self._rejoin(member)
        return [Reply(self.waiting.token, current_generation(group, member, self.waiting.api_version))]

    def _is_news(self, member: ClassicMember) -> bool:
        """Whether this join starts or belongs to a rebalance; else the member lost its answer and gets it again."""
        state = self.group.state.current
        if state is COMPLETING_REBALANCE:
            return member.protocols != self.protocols
        # The leader may have seen something that we do not see, such as new partitions of a topic.
        is_leader = self.group.leader == member.member_id
        return state is PREPARING_REBALANCE or is_leader or member.protocols != self.protocols

    def _rejoin(self, member: ClassicMember) -> list[Effect]:
        effects: list[Effect] = []
        if member.waiting_join is not None:
            # The client gave up on that request and asks again; the old one ends here.
            effects.append(
                Reply(
                    member.waiting_join.token,
                    join_error(RebalanceInProgress(), member.waiting_join.api_version, member_id=member.member_id),
                )
            )
        member.protocols = self.protocols
        member.rebalance_timeout_ms = self.rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms
        member.waiting_join = self.waiting
        return effects + rebalance_or_complete(self.group, self.settings, self.now_ms)
