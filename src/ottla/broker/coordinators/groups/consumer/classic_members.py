"""Members of a consumer group that still speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The member epoch is their generation, the coordinator is the leader. A member joins and gets its epoch, syncs and gets
its partitions; it must rejoin (REBALANCE_IN_PROGRESS, by heartbeat or sync) when there is something to revoke
or to get. Nobody waits for the others: a join is answered at once.

1. All members of the classic protocol must have an assignor in common, as they would have to in a classic group.
2. A member that must rejoin has its rebalance time-out for it, and the same time again to sync.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from ottla.broker.coordinators.effects import CancelTimer, Effect, Reply, SetTimer, Token, Write
from ottla.broker.coordinators.groups.consumer.embedded import owned_of, read_subscription, write_assignment
from ottla.broker.coordinators.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat_steps import (
    Environment,
    check_room,
    remove_members,
    session_timer,
    step,
    take_over,
    update_group,
    write_member_fields,
)
from ottla.broker.coordinators.groups.consumer.member import NOTHING, ConsumerMember
from ottla.broker.coordinators.groups.consumer.migration import Migration, with_classic
from ottla.broker.coordinators.groups.consumer.state import UNRELEASED, UNREVOKED
from ottla.broker.coordinators.groups.consumer.target import update_target
from ottla.broker.coordinators.groups.consumer.timers import ClassicJoinTimer, ClassicSyncTimer
from ottla.broker.coordinators.groups.group_responses import (
    after_commit,
    failing,
    heartbeat_error,
    join_answer,
    join_error,
    leave_answer,
    leave_error,
    leaving_members,
    left,
    sync_error,
)
from ottla.broker.coordinators.groups.modern_group import Draft
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    NONE,
    BrokerError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from ottla.light_dataclasses import replace
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.stored.consumer_groups import ClassicProtocol

log = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_SINCE = 4


class ClassicMembers:
    def __init__(self, migration: Migration, new_uuid: Callable[[], str]) -> None:
        self._migration = migration
        self._new_uuid = new_uuid

    # -- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(
        self,
        group: ConsumerGroup,
        token: Token,
        request: JoinGroupRequest,
        context: RequestContext,
        environment: Environment,
    ) -> list[Effect]:
        version, member_id = context.api_version, request.member_id or self._new_uuid()
        try:
            _check_join(group, request, member_id, environment)
            if not request.member_id and request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_SINCE:
                return [Reply(token, join_error(MemberIdRequired(), version, member_id=member_id))]
            return self._join(group, token, request, member_id, context, environment)
        except BrokerError as error:
            return [Reply(token, join_error(error, version, member_id=request.member_id))]

    def _join(
        self,
        group: ConsumerGroup,
        token: Token,
        request: JoinGroupRequest,
        member_id: str,
        context: RequestContext,
        environment: Environment,
    ) -> list[Effect]:
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except MalformedMessage as error:
            raise UnknownServerError("the subscription of the member cannot be read") from error
        draft = Draft(group)
        before = _find(draft, request, member_id)
        after = replace(
            with_classic(before, request.session_timeout_ms, _protocols(request)),
            instance_id=request.group_instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            rebalance_timeout_ms=(
                request.session_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
            ),
            topics=frozenset(subscription.topics),
            regex="",
            client_id=context.client_id,
            client_host=context.client_host,
        )
        changes = write_member_fields(draft, before, after)
        update_group(draft, changes, environment, group)
        update_target(draft, environment)
        owned = owned_of(subscription, environment.cluster)
        joined = step(draft, after, owned, environment, subscription_changed=changes.any)
        return self._joined(group, draft, joined, token, request, context.api_version, environment)

    def _joined(
        self,
        group: ConsumerGroup,
        draft: Draft[ConsumerGroup],
        joined: ConsumerMember,
        token: Token,
        request: JoinGroupRequest,
        version: int,
        environment: Environment,
    ) -> list[Effect]:
        reply = Reply(
            token,
            join_answer(
                version,
                member_id=joined.member_id,
                generation=joined.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=request.protocols[0].name,
            ),
        )
        failure = failing(token, lambda error: join_error(error, version, member_id=request.member_id))
        group_id, member_id = group.group_id, joined.member_id
        if self._migration.may_downgrade(draft.group, (), environment.settings):
            # It replaced the last member that spoke the new protocol.
            records, after = self._migration.downgrade(draft.group, (), environment)
            return [Write((*draft.records, *records), (reply,), self._migration.undo(group_id, failure)), *after]
        group.called.discard(member_id)
        return [
            Write(tuple(draft.records), (reply,), failure),
            session_timer(draft.group, joined, environment),
            CancelTimer(ClassicJoinTimer(group_id, member_id)),
            SetTimer(ClassicSyncTimer(group_id, member_id), environment.now_ms + joined.rebalance_timeout_ms),
        ]

    # -- SyncGroup ---------------------------------------------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, token: Token, request: SyncGroupRequest, environment: Environment
    ) -> list[Effect]:
        timers: list[Effect] = []
        try:
            member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
            protocol = _check_protocol(member, request)
            if group.epoch > member.epoch and member.state is not UNREVOKED:
                timers = _call(group, member, environment)
                raise RebalanceInProgress(f"group {group.group_id} is at epoch {group.epoch}")
        except BrokerError as error:
            return [*timers, Reply(token, sync_error(error))]
        answer = SyncGroupResponse(
            error_code=NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, environment.cluster, protocol.metadata),
        )
        return [
            after_commit(token, answer, sync_error),
            CancelTimer(ClassicSyncTimer(group.group_id, member.member_id)),
            session_timer(group, member, environment),
        ]

    # -- Heartbeat ---------------------------------------------------------------------------------------------------

    def heartbeat(
        self, group: ConsumerGroup, token: Token, request: HeartbeatRequest, environment: Environment
    ) -> list[Effect]:
        try:
            member = _known(group, request.member_id, request.group_instance_id, request.generation_id)
        except BrokerError as error:
            return [Reply(token, heartbeat_error(error))]
        effects: list[Effect] = [session_timer(group, member, environment)]
        code = NONE
        if _must_join_again(group, member):
            code = RebalanceInProgress.code
            effects += _call(group, member, environment)
        return [*effects, after_commit(token, HeartbeatResponse(error_code=code), heartbeat_error)]

    # -- LeaveGroup --------------------------------------------------------------------------------------------------

    def leave(
        self,
        group: ConsumerGroup,
        token: Token,
        request: LeaveGroupRequest,
        context: RequestContext,
        environment: Environment,
    ) -> list[Effect]:
        results, gone = [], {}
        for identity in leaving_members(request, context.api_version):
            try:
                member = _leaving(group, identity)
                gone[member.member_id] = member
                results.append(left(identity))
            except BrokerError as error:
                results.append(left(identity, error.code))
        answer = leave_answer(results, context.api_version)
        return self._left(group, list(gone.values()), token, answer, environment)

    def _left(
        self,
        group: ConsumerGroup,
        gone: list[ConsumerMember],
        token: Token,
        answer: LeaveGroupResponse,
        environment: Environment,
    ) -> list[Effect]:
        if not gone:
            return [Reply(token, answer)]
        failure = failing(token, leave_error)
        if self._migration.may_downgrade(group, gone, environment.settings):
            records, after = self._migration.downgrade(group, gone, environment)
            return [
                Write(tuple(records), (Reply(token, answer),), self._migration.undo(group.group_id, failure)),
                *after,
            ]
        draft = Draft(group)
        remove_members(draft, gone, environment)
        return [Write(tuple(draft.records), (Reply(token, answer),), failure)]


def _check_join(group: ConsumerGroup, request: JoinGroupRequest, member_id: str, environment: Environment) -> None:
    if environment.settings.group_consumer_migration_policy.upper() == "DISABLED":
        raise InconsistentGroupProtocol(
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration "
            "is disabled."
        )
    check_room(group, member_id, environment.settings)
    others = [each.classic for each in group.members.values() if each.classic is not None]
    spoken = Counter(protocol.name for each in others for protocol in each.supported_protocols)
    is_common = any(spoken[each.name] == len(others) for each in request.protocols)
    if request.protocol_type != PROTOCOL_TYPE or not is_common:
        raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")


def _protocols(request: JoinGroupRequest) -> list[ClassicProtocol]:
    return [ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols]


def _find(draft: Draft[ConsumerGroup], request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    group, instance_id = draft.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return group.static_member(instance_id, member_id)
    known_id = group.static_ids.get(instance_id)
    return ConsumerMember(member_id) if known_id is None else take_over(draft, group.member(known_id), member_id)


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = group.member(member_id) if instance_id is None else group.static_member(instance_id, member_id)
    if not member.speaks_classic:
        raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGeneration(f"member {member_id} is at epoch {member.epoch}, not at {generation}")
    return member


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> ClassicProtocol:
    assert member.classic is not None  # `_known` has looked
    protocol = member.classic.supported_protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
        raise InconsistentGroupProtocol(f"{protocol.name} of {PROTOCOL_TYPE} was agreed when the member joined")
    return protocol


def _must_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.epoch < group.epoch or member.state is UNREVOKED:
        return True
    return member.state is UNRELEASED and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    target = group.targets.get(member.member_id, NOTHING)
    return any(
        partition not in member.assigned.get(topic_id, NOTHING) and not group.is_free(topic_id, partition)
        for topic_id, partitions in target.items()
        for partition in partitions
    )


def _call(group: ConsumerGroup, member: ConsumerMember, environment: Environment) -> list[Effect]:
    """From the first call on the time to join runs."""
    if member.member_id in group.called:
        return []
    group.called.add(member.member_id)
    return [
        SetTimer(ClassicJoinTimer(group.group_id, member.member_id), environment.now_ms + member.rebalance_timeout_ms)
    ]


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """A member, whatever protocol it speaks: an administrator has no other request to remove one with."""
    instance_id, member_id = identity.group_instance_id, identity.member_id
    if instance_id is not None and not member_id:
        # An administrator removes a static member and does not know its id.
        member_id = group.static_ids.get(instance_id, "")
    return group.member(member_id) if instance_id is None else group.static_member(instance_id, member_id)
