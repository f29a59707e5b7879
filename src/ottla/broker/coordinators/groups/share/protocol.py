"""ShareGroupProtocol: the door through which a shard reaches its share groups.

Besides heartbeats it hears from the share coordinator (`initializing`, `initialized`), and it keeps of which
partitions that one has the state: `begin` when an administrator sets where a group begins, `keep` for the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping
from typing import TypeAlias

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, SetTimer, StoredRecord, Token, Write
from ottla.broker.coordinators.groups.group import Group, GroupProtocol, Replay
from ottla.broker.coordinators.groups.group_responses import after_commit, failing
from ottla.broker.coordinators.groups.modern_group import NOT_CHECKED
from ottla.broker.coordinators.groups.share.describe import describe, describe_error
from ottla.broker.coordinators.groups.share.group import ShareGroup
from ottla.broker.coordinators.groups.share.heartbeat import (
    JOIN,
    LEAVE,
    Environment,
    InitializeStates,
    check_request,
    heartbeat,
    heartbeat_error,
    left_answer,
    remove_members,
    session_timer,
)
from ottla.broker.coordinators.groups.share.idle import idle_effects, is_idle
from ottla.broker.coordinators.groups.share.partitions import SharePartitions, Topics, partitions_record
from ottla.broker.coordinators.groups.share.records import KINDS, epoch_record
from ottla.broker.coordinators.groups.timers import SessionTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import ShareGroupSettings
from ottla.errors import NONE, BrokerError, FencedStateEpoch, GroupIdNotFound
from ottla.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.schema import Message
from ottla.protocol.stored.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)

log = logging.getLogger(__name__)

ShareKeys: TypeAlias = (
    ShareGroupMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)


class ShareGroupProtocol(GroupProtocol[ShareGroup]):
    def __init__(
        self,
        groups: MutableMapping[str, Group],
        cluster: ClusterView,
        settings_of: Callable[[str], ShareGroupSettings],
    ) -> None:
        """`groups` is the shard's own; `settings_of` returns the settings of a group."""
        self._groups = groups
        self._cluster = cluster
        self._settings_of = settings_of

    def _environment(self, group_id: str, now_ms: int) -> Environment:
        return Environment(self._cluster, self._settings_of(group_id), now_ms)

    # -- the log -----------------------------------------------------------------------------------------------------

    @property
    def replays(self) -> Mapping[type[Message], Replay]:
        return dict.fromkeys(KINDS, self._replay)

    def _replay(self, key: ShareKeys, value: Message | None, offset: int, producer_id: int) -> None:
        group = self._groups.get(key.group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return  # the tombstone of a group that is gone
            group = self._groups[key.group_id] = ShareGroup(key.group_id)
        group.replay(key, value)
        if value is None and isinstance(key, ShareGroupMetadataKey):
            del self._groups[key.group_id]

    # -- ShareGroupHeartbeat -----------------------------------------------------------------------------------------

    def share_heartbeat(
        self, token: Token, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect | InitializeStates]:
        group = self._groups.get(request.group_id)
        member = group.members.get(request.member_id) if isinstance(group, ShareGroup) else None
        if isinstance(group, ShareGroup) and member is not None and is_idle(group, member, request, context):
            return idle_effects(request.group_id, member, self._environment(request.group_id, now_ms), token)
        return self.general_heartbeat(token, request, context, now_ms)

    def general_heartbeat(
        self, token: Token, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect | InitializeStates]:
        """Whatever the request says."""
        try:
            check_request(request)
            if request.member_epoch == LEAVE:
                return self._leave(token, request, now_ms)
            is_first = request.member_epoch == JOIN and request.group_id not in self._groups
            live = None if is_first else self.find(request.group_id)
            return heartbeat(live, token, request, context, self._environment(request.group_id, now_ms))
        except BrokerError as error:
            return [Reply(token, heartbeat_error(error))]

    def find(self, group_id: str) -> ShareGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            why = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
            raise GroupIdNotFound(why)
        return group

    def _leave(self, token: Token, request: ShareGroupHeartbeatRequest, now_ms: int) -> list[Effect | InitializeStates]:
        group = self.find(request.group_id)
        member = group.member(request.member_id)
        reply = Reply(token, left_answer(request))
        environment = self._environment(group.group_id, now_ms)
        return [remove_members(group, [member.member_id], environment, (reply,), failing(token, heartbeat_error))]

    # -- coming, going, time -----------------------------------------------------------------------------------------

    def loaded(self, group: ShareGroup, now_ms: int) -> list[Effect]:
        environment = self._environment(group.group_id, now_ms)
        return [session_timer(group.group_id, member_id, environment) for member_id in group.members]

    def unload(self, group: ShareGroup) -> list[Effect]:
        return []  # nobody waits

    def timer_fired(self, group: ShareGroup, key: Hashable, now_ms: int) -> list[Effect]:
        if not isinstance(key, SessionTimer):
            return []  # of a group of another kind that had this name
        if key.member_id not in group.members:
            return []
        log.info("group %s: member %s is put out by its session time-out", group.group_id, key.member_id)
        environment = self._environment(group.group_id, now_ms)
        failure = _logged(group.group_id, "a member could not be put out")
        # Nobody asks again for this member, so the timer does; when it is gone the timer finds nobody.
        retry = SetTimer(key, now_ms + environment.settings.heartbeat_interval_ms)
        return [remove_members(group, [key.member_id], environment, (), failure), retry]

    def topics_changed(self, group: ShareGroup, names: frozenset[str] | None) -> None:
        if names is None or any(group.is_subscribed_to(name) for name in names):
            group.checked_epoch = NOT_CHECKED

    # -- the share coordinator ---------------------------------------------------------------------------------------

    def initializing(self, group_id: str, topics: Topics) -> list[Effect]:
        """The share coordinator is being asked to begin these partitions; until it answers nobody asks again."""
        group = self._groups.get(group_id)
        if isinstance(group, ShareGroup):
            group.being_initialized |= {(key, each) for key, topic in topics.items() for each in topic.partitions}
        return []

    def initialized(self, group_id: str, topics: Topics, error: BrokerError | None, now_ms: int) -> list[Effect]:
        """The share coordinator has begun these partitions, or could not; then the next heartbeat asks again."""
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return []  # it was deleted meanwhile
        done = {(topic_id, each) for topic_id, topic in topics.items() for each in topic.partitions}
        group.being_initialized -= done
        group.is_covered = False
        if error is not None:
            # Fenced is who was overtaken by a later one, of this group, that has begun the same partitions.
            is_begun = (
                isinstance(error, FencedStateEpoch) or group.partitions.with_initialized(topics) == group.partitions
            )
            level = logging.DEBUG if is_begun else logging.WARNING
            log.log(level, "group %s: its share partitions could not be initialized: %s", group_id, error)
            return []
        record = partitions_record(group_id, group.partitions.with_initialized(topics))
        return [Write((record,), (), _logged(group_id, "initialized share partitions could not be written"))]

    def begin(self, token: Token, group_id: str, topics: Topics, context: RequestContext, now_ms: int) -> list[Effect]:
        """An administrator sets where an empty group begins: a new epoch, which earlier leaders do not have.

        A group that is not there yet is there from now on."""
        try:
            group = self.find(group_id) if group_id in self._groups else ShareGroup(group_id)
            group.check_delete()
        except BrokerError as error:
            return [Reply(token, _altered(error))]
        partitions = group.partitions.with_initializing(topics)
        records = (
            epoch_record(group_id, group.epoch + 1, group.metadata_hash),
            partitions_record(group_id, partitions),
        )
        return [Write(records, (Reply(token, _altered()),), failing(token, _altered))]

    def keep(self, token: Token, group_id: str, change: Callable[[SharePartitions], SharePartitions]) -> list[Effect]:
        """Write of which partitions the share coordinator has the state, after `change`."""
        try:
            group = self.find(group_id)
        except BrokerError as error:
            return [Reply(token, _altered(error))]
        changed = change(group.partitions)
        records = () if changed == group.partitions else (partitions_record(group_id, changed),)
        return [Write(records, (Reply(token, _altered()),), failing(token, _altered))]

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]]) -> list[Effect]:
        """The share coordinator forgets the state of deleted topics by itself; so do the groups."""
        gone = [topic_id for _, topic_id in topics]
        records: list[StoredRecord] = []
        for group in self._groups.values():
            if isinstance(group, ShareGroup) and group.partitions.has_any(gone):
                records.append(partitions_record(group.group_id, group.partitions.without(gone)))
        return [Write(tuple(records), (), _logged("", "deleted topics could not be removed"))] if records else []

    # -- ShareGroupDescribe ------------------------------------------------------------------------------------------

    def describe_groups(
        self, token: Token, request: ShareGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        found = [
            describe(each, self._groups.get(each), self._cluster, self._settings_of(each).assignor)
            for each in request.group_ids
        ]

        def failure(error: BrokerError) -> Message:
            return ShareGroupDescribeResponse(groups=[describe_error(each, error) for each in request.group_ids])

        return [after_commit(token, ShareGroupDescribeResponse(groups=found), failure)]


def _altered(error: BrokerError | None = None) -> AlterShareGroupOffsetsResponse:
    code = NONE if error is None else error.code
    message = None if error is None else error.brief
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message, responses=[])


def _logged(group_id: str, what: str) -> Callable[[BrokerError], tuple[Reply, ...]]:
    def failure(error: BrokerError) -> tuple[Reply, ...]:
        log.warning("group %s: %s: %s", group_id, what, error)
        return ()

    return failure
