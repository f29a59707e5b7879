"""Streams groups as the shard sees them: their requests, timers, records, coming and going.

1. A group becomes known with the first record that is replayed for it, and goes with the tombstone of its epoch. A
   classic group without members is replaced by the first heartbeat; a group of another kind is not.
2. A member that is silent for its session, or does not give up tasks within its rebalance time-out, is put out.
3. Nothing waits here: every heartbeat is answered as soon as its records are committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, MutableMapping

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, StoredRecord, Token, Write
from ottla.broker.coordinators.groups.classic_group import ClassicGroup
from ottla.broker.coordinators.groups.group import Group, GroupProtocol, Replay
from ottla.broker.coordinators.groups.group_responses import after_commit, failing
from ottla.broker.coordinators.groups.modern_group import NOT_CHECKED, Draft
from ottla.broker.coordinators.groups.streams.describe import describe, describe_error
from ottla.broker.coordinators.groups.streams.group import StreamsGroup
from ottla.broker.coordinators.groups.streams.heartbeat import (
    Environment,
    Heartbeat,
    heartbeat_error,
    left_answer,
    session_timer,
)
from ottla.broker.coordinators.groups.streams.heartbeat_check import check_request
from ottla.broker.coordinators.groups.streams.idle import idle_effects, is_idle
from ottla.broker.coordinators.groups.streams.member import StreamsMember
from ottla.broker.coordinators.groups.streams.records import KINDS, StreamsKey, epoch_record, member_tombstones
from ottla.broker.coordinators.groups.streams.state import JOIN, LEAVE, STATIC_LEAVE, UNREVOKED
from ottla.broker.coordinators.groups.streams.target import write_target
from ottla.broker.coordinators.groups.streams.timers import InitialAssignmentTimer, StreamsRevocationTimer
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import StreamsGroupConfig
from ottla.errors import BrokerError, GroupIdNotFound
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.protocol.schema import Message
from ottla.protocol.stored.streams_groups import StreamsGroupMetadataKey

log = logging.getLogger(__name__)


class StreamsGroupProtocol(GroupProtocol[StreamsGroup]):
    def __init__(
        self,
        groups: MutableMapping[str, Group],
        cluster: ClusterView,
        config_of: Callable[[str], StreamsGroupConfig],
    ) -> None:
        """`groups` are the shard's own, of all kinds."""
        self._groups = groups
        self._cluster = cluster
        self._config_of = config_of
        # Groups whose first records are being written; they keep what is soft until they are known.
        self._founding: dict[str, StreamsGroup] = {}

    def _environment(self, group_id: str, now_ms: int) -> Environment:
        return Environment(self._cluster, self._config_of(group_id), now_ms)

    # -- the log -----------------------------------------------------------------------------------------------------

    @property
    def replays(self) -> Mapping[type[Message], Replay]:
        return dict.fromkeys(KINDS, self._replay)

    def _replay(self, key: StreamsKey, value: Message | None, offset: int, producer_id: int) -> None:
        group = self._groups.get(key.group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return  # the tombstone of a group that is gone
            group = self._founding.pop(key.group_id, None) or StreamsGroup(key.group_id)
            self._groups[key.group_id] = group
        group.replay(key, value)
        if value is None and isinstance(key, StreamsGroupMetadataKey):
            del self._groups[key.group_id]

    # -- StreamsGroupHeartbeat ---------------------------------------------------------------------------------------

    def streams_heartbeat(
        self, token: Token, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        group = self._groups.get(request.group_id)
        member = group.members.get(request.member_id) if isinstance(group, StreamsGroup) else None
        if isinstance(group, StreamsGroup) and member is not None:
            environment = self._environment(request.group_id, now_ms)
            if is_idle(group, member, request, context, environment):
                return idle_effects(group, member, environment, token)
        return self.general_heartbeat(token, request, context, now_ms)

    def general_heartbeat(
        self, token: Token, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """Whatever the request says."""
        try:
            check_request(request)
            if request.member_epoch in (LEAVE, STATIC_LEAVE):
                return self._leave(token, request)
            draft = self._draft(request)
            environment = self._environment(request.group_id, now_ms)
            effects = Heartbeat(draft, request, context, environment).effects(token)
        except BrokerError as error:
            return [Reply(token, heartbeat_error(error))]
        if request.group_id not in self._groups or draft.live is not self._groups[request.group_id]:
            return self._founded(draft.live, effects)
        return effects

    def _draft(self, request: StreamsGroupHeartbeatRequest) -> Draft[StreamsGroup]:
        known = self._groups.get(request.group_id)
        if isinstance(known, StreamsGroup):
            return Draft(known)
        if request.member_epoch == JOIN and known is None:
            return Draft(StreamsGroup(request.group_id))
        if request.member_epoch == JOIN and isinstance(known, ClassicGroup) and known.is_empty:
            return Draft(StreamsGroup(request.group_id), known.tombstones())
        raise _not_here(request.group_id, known)

    def _founded(self, group: StreamsGroup, effects: list[Effect]) -> list[Effect]:
        """A new group is `group` when its records are replayed; when they cannot be written it never was."""
        self._founding[group.group_id] = group

        def failing_write(write: Write) -> Write:
            def failure(error: BrokerError) -> tuple[Reply, ...]:
                self._founding.pop(group.group_id, None)
                return write.failure(error)

            return write._replace(failure=failure)

        return [failing_write(each) if isinstance(each, Write) else each for each in effects]

    # -- leaving -----------------------------------------------------------------------------------------------------

    def _leave(self, token: Token, request: StreamsGroupHeartbeatRequest) -> list[Effect]:
        group = self._groups.get(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise _not_here(request.group_id, group)
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = request.member_id
        member = group.member(request.member_id)
        reply = Reply(token, left_answer(request))
        return [Write(_removal(group, member), (reply,), failing(token, heartbeat_error))]

    # -- timers ------------------------------------------------------------------------------------------------------

    def timer_fired(self, group: StreamsGroup, key: Hashable, now_ms: int) -> list[Effect]:
        match key:
            case InitialAssignmentTimer():
                return self._assign(group, now_ms)
            case SessionTimer():
                return self._put_out(group, group.members.get(key.member_id), key, now_ms)
            case StreamsRevocationTimer():
                member = group.members.get(key.member_id)
                is_late = member is not None and (member.state, member.epoch) == (UNREVOKED, key.epoch)
                return self._put_out(group, member if is_late else None, key, now_ms)
        return []  # of a group of another kind that had this name

    def _assign(self, group: StreamsGroup, now_ms: int) -> list[Effect]:
        """The time to wait for more members is over."""
        if group.is_empty or group.configured is None or group.assignment_epoch >= group.epoch:
            return []
        draft = Draft(group)
        write_target(draft, group.configured, now_ms)

        def failure(error: BrokerError) -> tuple[Reply, ...]:
            log.warning("group %s: the first assignment waits for a heartbeat: %s", group.group_id, error)
            return ()

        return [Write(tuple(draft.records), (), failure)]

    def _put_out(
        self,
        group: StreamsGroup,
        member: StreamsMember | None,
        key: SessionTimer | StreamsRevocationTimer,
        now_ms: int,
    ) -> list[Effect]:
        if member is None:
            return []

        def failure(error: BrokerError) -> tuple[Reply, ...]:
            log.warning("group %s: a member could not be put out: %s", group.group_id, error)
            return ()

        log.info("group %s: member %s is put out by its %s", group.group_id, member.member_id, type(key).__name__)
        # Nobody asks again for this member, so the timer does; when it is gone the timer finds nobody.
        retry = SetTimer(key, now_ms + self._config_of(group.group_id).heartbeat_interval_ms)
        return [Write(_removal(group, member), (), failure), retry]

    # -- coming and going --------------------------------------------------------------------------------------------

    def loaded(self, group: StreamsGroup, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        environment = self._environment(group.group_id, now_ms)
        for member in group.members.values():
            effects.append(session_timer(group.group_id, member, environment))
            if member.state is UNREVOKED:
                key = StreamsRevocationTimer(group.group_id, member.member_id, member.epoch)
                effects.append(SetTimer(key, now_ms + member.rebalance_timeout_ms))
        return effects

    def unload(self, group: StreamsGroup) -> list[Effect]:
        self._founding.clear()
        return []  # nobody waits

    def topics_changed(self, group: StreamsGroup, names: frozenset[str] | None) -> None:
        """These topics were made, changed or deleted (None: it may be any); the next heartbeat checks them."""
        topology = group.topology
        if names is None or topology is None or not names.isdisjoint(topology.required_topics):
            group.checked_epoch = NOT_CHECKED

    def missing_topics(self, group_id: str) -> Mapping[str, CreatableTopic]:
        """The internal topics that the topology of this group needs and does not have."""
        group = self._groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.configured is None:
            return {}
        return group.configured.missing

    # -- StreamsGroupDescribe ----------------------------------------------------------------------------------------

    def describe_groups(
        self, token: Token, request: StreamsGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        found = [describe(group_id, self._groups.get(group_id)) for group_id in request.group_ids]

        def failure(error: BrokerError) -> Message:
            return StreamsGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])

        return [after_commit(token, StreamsGroupDescribeResponse(groups=found), failure)]


def _removal(group: StreamsGroup, member: StreamsMember) -> tuple[StoredRecord, ...]:
    """A member goes and the group moves on. Its timers run on: they find nobody."""
    epoch = epoch_record(
        group.group_id,
        group.epoch + 1,
        group.metadata_hash,
        group.validated_topology_epoch,
        group.assignment_configs,
    )
    return (*member_tombstones(group.group_id, member.member_id), epoch)


def _not_here(group_id: str, group: Group | None) -> GroupIdNotFound:
    why = f"Streams group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
    return GroupIdNotFound(why)
