"""Consumer groups as the shard sees them: their requests, timers, records, coming and going.

1. A group becomes known with the first record that is replayed for it, and goes with the tombstone of its epoch.
   A classic group without members is replaced by the first heartbeat; one with members is converted if
   group.consumer.migration.policy allows it (migration.py).
2. A member that is silent for its session, or does not give up partitions within its rebalance time-out, is put out.
   When the last member that speaks the new protocol goes and classic ones stay, the group becomes classic again.
3. Nothing waits here: every heartbeat is answered as soon as its records are committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, MutableMapping
from functools import partial
from typing import Any, TypeAlias

from ottla.broker.coordinators.effects import (
    ClusterView,
    Effect,
    Reply,
    SetTimer,
    Token,
    Write,
)
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.consumer import regex
from ottla.broker.coordinators.groups.consumer.classic_members import ClassicMembers
from ottla.broker.coordinators.groups.consumer.describe import describe, describe_error
from ottla.broker.coordinators.groups.consumer.group import ConsumerGroup
from ottla.broker.coordinators.groups.consumer.heartbeat import (
    Heartbeat,
    check_request,
    heartbeat_error,
    leave,
    left_answer,
)
from ottla.broker.coordinators.groups.consumer.heartbeat_steps import Environment, remove_members, session_timer
from ottla.broker.coordinators.groups.consumer.idle import idle_effects, is_idle
from ottla.broker.coordinators.groups.consumer.member import ConsumerMember
from ottla.broker.coordinators.groups.consumer.migration import Migration
from ottla.broker.coordinators.groups.consumer.records import KINDS
from ottla.broker.coordinators.groups.consumer.state import JOIN, LEAVE, STATIC_LEAVE, UNREVOKED
from ottla.broker.coordinators.groups.consumer.timers import (
    ClassicJoinTimer,
    ClassicSyncTimer,
    RegexTimer,
    RevocationTimer,
)
from ottla.broker.coordinators.groups.group import Group, GroupProtocol, Replay
from ottla.broker.coordinators.groups.group_responses import after_commit, failing
from ottla.broker.coordinators.groups.modern_group import NOT_CHECKED, Draft
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.timers import CallTimer, JoinTimer, SessionTimer, SyncTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import ConsumerTimes, consumer_times
from ottla.broker.settings.groups import GroupCoordinatorSettings
from ottla.errors import BrokerError, GroupIdNotFound
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.schema import Message
from ottla.protocol.stored.consumer_groups import ConsumerGroupMetadataKey

log = logging.getLogger(__name__)

Failure: TypeAlias = Callable[[BrokerError], tuple[Reply, ...]]
MayDescribe: TypeAlias = Callable[[RequestContext | None, Collection[str]], Collection[str]]
"""Those of the topics that whoever sent a request may describe; nobody in particular may describe all."""
MemberTimer: TypeAlias = SessionTimer | RevocationTimer | ClassicJoinTimer | ClassicSyncTimer


class ConsumerGroupProtocol(GroupProtocol[ConsumerGroup]):
    def __init__(
        self,
        groups: MutableMapping[str, Group],
        founding: MutableMapping[str, ClassicGroup],
        settings: GroupSettings,
        cluster: ClusterView,
        new_uuid: Callable[[], str],
        times_of: Callable[[str], ConsumerTimes] | None,
        may_describe: MayDescribe,
        epochs_before: int = 0,
    ) -> None:
        """`groups` and `founding` are the shard's own: groups of all kinds, and classic ones that are being made."""
        self._epochs_before = epochs_before
        self._groups = groups
        self._cluster = cluster
        self._new_uuid = new_uuid
        self._may_describe = may_describe
        self._classic_settings = settings
        # A shard that was made with the settings of classic groups alone has the defaults for these.
        self._defaults = None if isinstance(settings, GroupCoordinatorSettings) else GroupCoordinatorSettings()
        self._migration = Migration(founding, settings, cluster, epochs_before)
        self._classic = ClassicMembers(self._migration, new_uuid)
        self._times_of = times_of or (lambda group_id: consumer_times({}, self._settings))

    @property
    def _settings(self) -> GroupCoordinatorSettings:
        settings = self._classic_settings if self._defaults is None else self._defaults
        assert isinstance(settings, GroupCoordinatorSettings)
        return settings

    def _environment(self, now_ms: int) -> Environment:
        return Environment(self._cluster, self._settings, self._times_of, now_ms)

    # -- the log -----------------------------------------------------------------------------------------------------

    @property
    def replays(self) -> Mapping[type[Message], Replay]:
        return dict.fromkeys(KINDS, self._replay)

    def _replay(self, key: Any, value: Message | None, offset: int, producer_id: int) -> None:
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # the tombstone of a group that is gone
            # A classic group here is one of nothing but offsets, or its tombstone was compacted away.
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id, self._epochs_before)
        group.replay(key, value)
        if value is None and isinstance(key, ConsumerGroupMetadataKey):
            del self._groups[key.group_id]

    # -- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, token: Token, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        group = self._groups.get(request.group_id)
        member = group.members.get(request.member_id) if isinstance(group, ConsumerGroup) else None
        if isinstance(group, ConsumerGroup) and member is not None and is_idle(group, member, request, context):
            return idle_effects(request.group_id, member, self._times_of(request.group_id), token, now_ms)
        return self.general_heartbeat(token, request, context, now_ms)

    def general_heartbeat(
        self, token: Token, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """Whatever the request says."""
        try:
            check_request(request, context.api_version, self._settings)
            if request.member_epoch in (LEAVE, STATIC_LEAVE):
                return self._leave(token, request, now_ms)
            return self._heartbeat(token, request, context, now_ms)
        except BrokerError as error:
            return [Reply(token, heartbeat_error(error))]

    def _heartbeat(
        self, token: Token, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        environment = self._environment(now_ms)
        known = self._groups.get(request.group_id)
        live = known if isinstance(known, ConsumerGroup) else None
        before: list[Effect] = []
        if live is not None:
            draft = Draft(live)
        elif request.member_epoch != JOIN:
            raise _not_here(request.group_id, known)
        elif known is None:
            draft = Draft(ConsumerGroup(request.group_id, self._epochs_before))
        elif isinstance(known, ClassicGroup) and known.is_empty:
            draft = Draft(ConsumerGroup(request.group_id, self._epochs_before), known.tombstones())
        elif isinstance(known, ClassicGroup) and self._migration.may_upgrade(known, environment.settings):
            draft, before = self._migration.upgrade(known, environment)
        else:
            raise _not_here(request.group_id, known)
        return [*before, *Heartbeat(draft, request, context, environment, self._new_uuid).effects(token, live)]

    def _leave(self, token: Token, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> list[Effect]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_here(request.group_id, group)
        member, effects = leave(group, token, request)
        if member is None:
            return effects
        reply = Reply(token, left_answer(request))
        return self._put_out(group, member, now_ms, (reply,), failing(token, heartbeat_error))

    # -- putting out -------------------------------------------------------------------------------------------------

    def _put_out(
        self, group: ConsumerGroup, member: ConsumerMember, now_ms: int, replies: tuple[Reply, ...], failure: Failure
    ) -> list[Effect]:
        environment = self._environment(now_ms)
        if self._migration.may_downgrade(group, [member], environment.settings):
            records, after = self._migration.downgrade(group, [member], environment)
            return [Write(tuple(records), replies, self._migration.undo(group.group_id, failure)), *after]
        draft = Draft(group)
        remove_members(draft, [member], environment)
        return [Write(tuple(draft.records), replies, failure)]

    def timer_fired(self, group: ConsumerGroup, key: Hashable, now_ms: int) -> list[Effect]:
        match key:
            case RegexTimer():
                return regex.resolve(group, self._cluster, key, now_ms, partial(self._may_describe, key.asked_by))
            case JoinTimer() | SyncTimer() | CallTimer():
                return []  # of the classic group that this one was, or was to become
            case SessionTimer() | RevocationTimer() | ClassicJoinTimer() | ClassicSyncTimer():
                return self._time_is_over(group, key, now_ms)
        raise TypeError(f"a consumer group has no timer {key!r}")

    def _time_is_over(self, group: ConsumerGroup, key: MemberTimer, now_ms: int) -> list[Effect]:
        member = group.members.get(key.member_id)
        if member is None or not _still_applies(key, member):
            return []

        def failure(error: BrokerError) -> tuple[Reply, ...]:
            log.warning("group %s: a member could not be put out: %s", group.group_id, error)
            return ()

        log.info("group %s: member %s is put out by its %s", group.group_id, key.member_id, type(key).__name__)
        # Nobody asks again for this member, so the timer does; when it is gone the timer finds nobody.
        retry = SetTimer(key, now_ms + self._times_of(group.group_id).heartbeat_interval_ms)
        return [*self._put_out(group, member, now_ms, (), failure), retry]

    # -- coming and going --------------------------------------------------------------------------------------------

    def loaded(self, group: ConsumerGroup, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        environment = self._environment(now_ms)
        group.has_new_topics = True  # topics may have been made while nobody looked
        for member in group.members.values():
            effects.append(session_timer(group, member, environment))
            if member.state is UNREVOKED and not member.speaks_classic:
                key = RevocationTimer(group.group_id, member.member_id)
                effects.append(SetTimer(key, now_ms + member.rebalance_timeout_ms))
        return effects

    def unload(self, group: ConsumerGroup) -> list[Effect]:
        return []  # nobody waits

    def topics_changed(self, group: ConsumerGroup, names: frozenset[str] | None) -> None:
        """These topics were made, changed or deleted (None: it may be any); the next heartbeat checks them."""
        group.has_new_topics = True
        if names is None or any(group.is_subscribed_to(name) for name in names):
            group.checked_epoch = NOT_CHECKED

    # -- ConsumerGroupDescribe ---------------------------------------------------------------------------------------

    def describe_groups(
        self, token: Token, request: ConsumerGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        found = [self._described(group_id) for group_id in request.group_ids]

        def failure(error: BrokerError) -> Message:
            return ConsumerGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])

        return [after_commit(token, ConsumerGroupDescribeResponse(groups=found), failure)]

    def _described(self, group_id: str) -> DescribedGroup:
        return describe(group_id, self._groups.get(group_id), self._cluster, self._settings)

    # -- members of the classic protocol -----------------------------------------------------------------------------

    def join(
        self, group: ConsumerGroup, token: Token, request: JoinGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._classic.join(group, token, request, context, self._environment(now_ms))

    def sync(
        self, group: ConsumerGroup, token: Token, request: SyncGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._classic.sync(group, token, request, self._environment(now_ms))

    def heartbeat(
        self, group: ConsumerGroup, token: Token, request: HeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._classic.heartbeat(group, token, request, self._environment(now_ms))

    def leave(
        self, group: ConsumerGroup, token: Token, request: LeaveGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._classic.leave(group, token, request, context, self._environment(now_ms))


def _still_applies(key: MemberTimer, member: ConsumerMember) -> bool:
    """Whether the member is still in the state that the timer limits; timers are not cancelled, they check."""
    match key:
        case RevocationTimer():
            return member.state is UNREVOKED and not member.speaks_classic
        case ClassicJoinTimer() | ClassicSyncTimer():
            return member.speaks_classic
    return True


def _not_here(group_id: str, group: Group | None) -> GroupIdNotFound:
    why = f"Consumer group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    return GroupIdNotFound(why)
