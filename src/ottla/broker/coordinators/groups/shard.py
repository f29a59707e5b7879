"""GroupShard: the groups and offsets behind one partition of __consumer_offsets.

It keeps the map of groups, checks what is asked of every kind of group alike, and passes the rest on:

    classic.py, joining.py, rebalance.py   members of classic groups
    consumer/                              members of consumer groups (KIP-848)
    share/                                 members of share groups (KIP-932), loaded with the first of them
    streams/                               members of streams groups (KIP-1071), loaded with the first of them
    committing.py, fetching.py             offsets
    expiry.py                              what nobody needs any more

1. `groups` and the offsets change only in `replay` and `replay_end_of_transaction`. A group that somebody begins to
   join waits in `_founding` until its first record is replayed; when that cannot be written it never was.
2. Every group of a request must belong to this shard. ListGroups goes to every shard, requests for several groups are
   split by shard, and the answers put together, by the handler; so is what a principal may not see.
3. Another kind of group comes in by `add_kind`: its GroupProtocol, and what its records mean. An empty group of a kind
   that may become classic is replaced by the first JoinGroup: its tombstones and the new group's record are one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinators.effects import (
    ClusterView,
    Effect,
    Reply,
    StoredRecord,
    Token,
    Write,
)
from ottla.broker.coordinators.groups.classic import ClassicGroupProtocol
from ottla.broker.coordinators.groups.classic_group import ClassicGroup, generations_before
from ottla.broker.coordinators.groups.committing import Committing, txn_commit_error
from ottla.broker.coordinators.groups.consumer.protocol import ConsumerGroupProtocol, MayDescribe
from ottla.broker.coordinators.groups.consumer.records import KINDS as CONSUMER_KINDS
from ottla.broker.coordinators.groups.describing import describe
from ottla.broker.coordinators.groups.expiry import Expiry
from ottla.broker.coordinators.groups.fetching import Fetching, delete_error
from ottla.broker.coordinators.groups.group import Group, GroupKind, GroupProtocol, Replay
from ottla.broker.coordinators.groups.group_responses import (
    coordinator_error,
    failing,
    heartbeat_error,
    join_error,
    leave_error,
    leave_unknown_members,
    sync_error,
)
from ottla.broker.coordinators.groups.offset_store import OffsetStore
from ottla.broker.coordinators.groups.records import founding_record, offset_tombstone
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.coordinators.groups.timers import ExpiryTimer, GroupTimer, StreamsTimer
from ottla.broker.requests.context import RequestContext
from ottla.broker.settings.group_level import (
    ConsumerTimes,
    ShareGroupSettings,
    StreamsGroupConfig,
    share_group_settings,
)
from ottla.broker.settings.sharing import SharingSettings
from ottla.errors import NONE, BrokerError, GroupIdNotFound, InvalidGroupId, InvalidSessionTimeout, UnknownMemberId
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import OffsetCommitRequest
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.schema import Message
from ottla.protocol.stored import share_groups, streams_groups
from ottla.protocol.stored.classic_groups import GroupMetadataKey, GroupMetadataValue
from ottla.protocol.stored.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from ottla.broker.coordinators.groups.share.heartbeat import InitializeStates
    from ottla.broker.coordinators.groups.share.protocol import ShareGroupProtocol
    from ottla.broker.coordinators.groups.streams.protocol import StreamsGroupProtocol
    from ottla.protocol.messages.create_topics import CreatableTopic
    from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
    from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
    from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

KINDS: Final[Mapping[type[Message], type[Message]]] = {
    LegacyOffsetCommitKey: LegacyOffsetCommitValue,
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
    **CONSUMER_KINDS,
}
"""The records this shard reads: the class of the key, and of its value."""

MAY_BECOME_CLASSIC: Final = frozenset({GroupKind.CONSUMER, GroupKind.STREAMS})


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        cluster: ClusterView,
        new_uuid: Callable[[], str],
        times_of: Callable[[str], ConsumerTimes] | None = None,
        may_describe: MayDescribe = lambda asked_by, names: names,
        streams_config_of: Callable[[str], StreamsGroupConfig] = lambda group_id: StreamsGroupConfig(),
        share_settings_of: Callable[[str], ShareGroupSettings] = lambda group_id: share_group_settings(
            {}, SharingSettings()
        ),
        leader_epoch: int = 0,
    ) -> None:
        """`new_uuid` makes the random text of a new member id, `times_of` and its kin return the settings
        of a group, `may_describe` those of some topics that whoever sent a request may see. `leader_epoch` is that of
        the partition in which the groups are kept."""
        self.settings = settings
        self._generations_before = generations_before(leader_epoch)
        self.cluster = cluster
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self._founding: dict[str, ClassicGroup] = {}
        self._committing = Committing(settings, cluster)
        self._fetching = Fetching(self.offsets, cluster)
        self._expiry = Expiry(self.groups, self.offsets, settings)
        self._protocols: dict[GroupKind, GroupProtocol[Any]] = {
            GroupKind.CLASSIC: ClassicGroupProtocol(settings, new_uuid),
        }
        self._replays: dict[type[Message], Replay] = {
            GroupMetadataKey: self._replay_classic_group,
            OffsetCommitKey: self._replay_offset,
            LegacyOffsetCommitKey: self._replay_legacy_offset,
        }
        self._consumers = ConsumerGroupProtocol(
            self.groups, self._founding, settings, cluster, new_uuid, times_of, may_describe, self._generations_before
        )
        self.add_kind(GroupKind.CONSUMER, self._consumers, self._consumers.replays)
        self._streams_config_of = streams_config_of
        self._share_settings_of = share_settings_of

    def add_kind(self, kind: GroupKind, protocol: GroupProtocol[Any], replays: Mapping[type[Message], Replay]) -> None:
        """Take in another kind of group: the code behind it, and what each of its records does to `groups`."""
        self._protocols[kind] = protocol
        self._replays.update(replays)

    @cached_property
    def shares(self) -> ShareGroupProtocol:
        from ottla.broker.coordinators.groups.share.protocol import ShareGroupProtocol

        made = ShareGroupProtocol(self.groups, self.cluster, self._share_settings_of)
        self.add_kind(GroupKind.SHARE, made, made.replays)
        return made

    @cached_property
    def _streams(self) -> StreamsGroupProtocol:
        from ottla.broker.coordinators.groups.streams.protocol import StreamsGroupProtocol

        made = StreamsGroupProtocol(self.groups, self.cluster, self._streams_config_of)
        self.add_kind(GroupKind.STREAMS, made, made.replays)
        return made

    def protocol_of(self, group: Group) -> GroupProtocol[Any]:
        return self._protocols[group.kind]

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, record: StoredRecord, *, offset: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        replay = self._replays.get(type(record.key)) or self._replay_of_kind_not_loaded(type(record.key))
        replay(record.key, record.value, offset, producer_id)

    def _replay_of_kind_not_loaded(self, key: type[Message]) -> Replay:
        if key.__module__ == share_groups.__name__:
            return self.shares.replays[key]
        if key.__module__ != streams_groups.__name__:
            raise TypeError(f"{key.__name__} is no record of the group coordinator")
        return self._streams.replays[key]

    def _replay_classic_group(
        self, key: GroupMetadataKey, value: GroupMetadataValue | None, offset: int, producer_id: int
    ) -> None:
        known = self.groups.get(key.group)
        classic = known if isinstance(known, ClassicGroup) else None
        if value is not None:
            founding = self._founding.pop(key.group, None)
            group = self._classic(classic or founding or ClassicGroup(key.group))
            group.replay(value)
        elif classic is not None:
            del self.groups[key.group]

    def _classic(self, group: ClassicGroup) -> ClassicGroup:
        """It is one of this shard's."""
        group.generations_before = self._generations_before
        self.groups[group.group_id] = group
        return group

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        if value is not None and key.group not in self.groups:
            # A simple group: it has no record of its own, its offsets are all there is.
            self._classic(ClassicGroup(key.group, value.commit_timestamp))
        self.offsets.replay(key, value, offset=offset, producer_id=producer_id)

    def _replay_legacy_offset(
        self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, offset: int, producer_id: int
    ) -> None:
        today = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
        self._replay_offset(today, None if value is None else _as_today(value), offset, producer_id)

    def replay_end_of_transaction(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.offsets.end_of_transaction(producer_id, committed=committed)

    # -- coming, going, time -----------------------------------------------------------------------------------------

    def loaded(self, now_ms: int) -> Iterator[list[Effect]]:
        yield [self._expiry.next_search(now_ms)]
        for group in list(self.groups.values()):
            yield self.protocol_of(group).loaded(group, now_ms)

    def unload(self) -> list[Effect]:
        """Answer all pending requests. The runtime drops the timers, and answers for what was written but not
        committed."""
        effects: list[Effect] = []
        for group in (*self.groups.values(), *self._founding.values()):
            effects += self.protocol_of(group).unload(group)
        self.groups.clear()
        self._founding.clear()
        return effects

    def timer_fired(self, key: Hashable, now_ms: int) -> list[Effect]:
        if isinstance(key, ExpiryTimer):
            return self._expiry.search(now_ms)
        if not isinstance(key, GroupTimer):
            raise TypeError(f"the group coordinator has no timer {key!r}")
        group = self.groups.get(key.group_id)
        if isinstance(key, StreamsTimer) and group is not None and group.kind is not GroupKind.STREAMS:
            return []
        return [] if group is None else self.protocol_of(group).timer_fired(group, key, now_ms)

    # -- members -----------------------------------------------------------------------------------------------------

    def join_group(self, token: Token, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> list[Effect]:
        version, member_id = context.api_version, request.member_id
        if not request.group_id:
            return [Reply(token, join_error(InvalidGroupId(), version, member_id=member_id))]
        shortest, longest = self.settings.group_min_session_timeout_ms, self.settings.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return [Reply(token, join_error(InvalidSessionTimeout(), version, member_id=member_id))]
        group = self.groups.get(request.group_id)
        if group is not None and not (group.is_empty and group.kind in MAY_BECOME_CLASSIC):
            return self.protocol_of(group).join(group, token, request, context, now_ms)
        if member_id:
            return [Reply(token, join_error(UnknownMemberId(), version, member_id=member_id))]
        return self._found(group, token, request, context, now_ms)

    def _found(
        self, former: Group | None, token: Token, request: JoinGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """The first member of a new group: if it may join, the group's first record is written."""
        group = ClassicGroup(request.group_id, now_ms)
        effects = self.protocol_of(group).join(group, token, request, context, now_ms)
        if not group.members and not group.pending:
            return effects
        self._founding[request.group_id] = group

        def failure(error: BrokerError) -> tuple[Reply, ...]:
            self._founding.pop(request.group_id, None)
            return (Reply(token, join_error(coordinator_error(error), context.api_version)),)

        replies = tuple(effect for effect in effects if isinstance(effect, Reply))
        records = (*(() if former is None else former.tombstones()), founding_record(request.group_id, now_ms))
        rest = [effect for effect in effects if not isinstance(effect, Reply)]
        return [Write(records, replies, failure), *rest]

    def sync_group(self, token: Token, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> list[Effect]:
        if not request.group_id:
            return [Reply(token, sync_error(InvalidGroupId()))]
        group = self.groups.get(request.group_id)
        if group is None:
            return [Reply(token, sync_error(UnknownMemberId()))]
        return self.protocol_of(group).sync(group, token, request, context, now_ms)

    def heartbeat(self, token: Token, request: HeartbeatRequest, context: RequestContext, now_ms: int) -> list[Effect]:
        if not request.group_id:
            return [Reply(token, heartbeat_error(InvalidGroupId()))]
        group = self.groups.get(request.group_id)
        if group is None:
            return [Reply(token, heartbeat_error(UnknownMemberId()))]
        return self.protocol_of(group).heartbeat(group, token, request, context, now_ms)

    def leave_group(
        self, token: Token, request: LeaveGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        if not request.group_id:
            return [Reply(token, leave_error(InvalidGroupId()))]
        group = self.groups.get(request.group_id)
        if group is None:
            return [Reply(token, leave_unknown_members(request, context.api_version))]
        return self.protocol_of(group).leave(group, token, request, context, now_ms)

    # -- members of consumer groups ----------------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, token: Token, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._consumers.consumer_heartbeat(token, request, context, now_ms)

    def describe_consumer_groups(
        self, token: Token, request: ConsumerGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._consumers.describe_groups(token, request, context, now_ms)

    # -- members of streams groups -----------------------------------------------------------------------------------

    def streams_group_heartbeat(
        self, token: Token, request: StreamsGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._streams.streams_heartbeat(token, request, context, now_ms)

    def describe_streams_groups(
        self, token: Token, request: StreamsGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._streams.describe_groups(token, request, context, now_ms)

    def missing_streams_topics(self, group_id: str) -> Mapping[str, CreatableTopic]:
        return self._streams.missing_topics(group_id)

    # -- members of share groups -------------------------------------------------------------------------------------

    def share_group_heartbeat(
        self, token: Token, request: ShareGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect | InitializeStates]:
        return self.shares.share_heartbeat(token, request, context, now_ms)

    def describe_share_groups(
        self, token: Token, request: ShareGroupDescribeRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self.shares.describe_groups(token, request, context, now_ms)

    # -- the cluster -------------------------------------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str] | None, now_ms: int) -> list[Effect]:
        """These topics were made, changed or deleted; None: it may be any. Groups that read them look again."""
        changed = None if names is None else frozenset(names)
        for group in self.groups.values():
            self.protocol_of(group).topics_changed(group, changed)
        return []

    # -- offsets -----------------------------------------------------------------------------------------------------

    def commit_offsets(
        self, token: Token, request: OffsetCommitRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """The empty group id is allowed here, as it was before groups had members."""
        group = self.groups.get(request.group_id)
        effects = self._committing.commit(group, token, request, context, now_ms)
        if group is not None and any(isinstance(effect, Write) for effect in effects):
            effects += self.protocol_of(group).offsets_committed(group, request.member_id, now_ms)
        return effects

    def commit_offsets_in_transaction(
        self, token: Token, request: TxnOffsetCommitRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        """That the producer may write in this transaction is checked before, by the handler."""
        if not request.group_id:
            return [Reply(token, txn_commit_error(request, InvalidGroupId()))]
        group = self.groups.get(request.group_id)
        return self._committing.commit_in_transaction(group, token, request, context, now_ms)

    def fetch_offsets(
        self, token: Token, request: OffsetFetchRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return self._fetching.fetch(self.groups, token, request, context)

    def delete_offsets(
        self, token: Token, request: OffsetDeleteRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        if not request.group_id:
            return [Reply(token, delete_error(InvalidGroupId()))]
        return self._fetching.delete(self.groups.get(request.group_id), token, request)

    def topics_deleted(self, topics: Iterable[tuple[str, bytes]], now_ms: int) -> list[Effect]:
        """Forget the offsets of these topics (name and id); nobody waits for it."""
        deleted = list(topics)
        effects = self._expiry.topics_deleted(deleted)
        return effects + self.shares.topics_deleted(deleted) if GroupKind.SHARE in self._protocols else effects

    # -- groups ------------------------------------------------------------------------------------------------------

    def list_groups(
        self, token: Token, request: ListGroupsRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        states = {each.strip().lower() for each in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        listed = [
            group.listed()
            for group in self.groups.values()
            if (not states or group.state_name.lower() in states) and (not types or group.kind.value in types)
        ]
        return [Reply(token, ListGroupsResponse(error_code=NONE, groups=listed))]

    def describe_groups(
        self, token: Token, request: DescribeGroupsRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        described = [describe(each, self.groups.get(each), context.api_version) for each in request.groups]
        return [Reply(token, DescribeGroupsResponse(groups=described))]

    def delete_groups(
        self, token: Token, request: DeleteGroupsRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        names = list(dict.fromkeys(request.groups_names))
        records: list[StoredRecord] = []
        codes: dict[str, int] = {}
        for name in names:
            try:
                records += self._removal(name)
                codes[name] = NONE
            except BrokerError as error:
                codes[name] = error.code
        reply = Reply(token, _deleted(codes))
        if not records:
            return [reply]
        failed = failing(token, lambda error: _deleted({name: code or error.code for name, code in codes.items()}))
        return [Write(tuple(records), (reply,), failed)]

    def _removal(self, group_id: str) -> list[StoredRecord]:
        """The tombstones of a group and all its offsets."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(group_id)
        group.check_delete()
        offsets = [offset_tombstone(group_id, *place) for place in self.offsets.partitions_of(group_id)]
        return [*offsets, *group.tombstones()]


def _deleted(codes: Mapping[str, int]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=code) for name, code in codes.items()]
    )


def _as_today(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    return OffsetCommitValue(offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp)
