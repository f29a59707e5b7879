"""The interface of every kind of group, whatever protocol its members speak.

A shard keeps groups of several kinds under one roof of names: classic groups, consumer groups (KIP-848), share groups.
Two interfaces keep them apart:

    Group       the state of one group, and the questions offsets, listing and deletion have for it
    GroupProtocol  the code behind a kind: what the members' requests, timers, loading and unloading mean for it

A group of another kind refuses classic requests the way Kafka does; a kind whose members may speak the classic
protocol (KIP-848, while a group is being upgraded or downgraded) overrides those methods. An empty group may become
one of another kind: its tombstones are written, and the records of the new one behind them in the same batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from ottla.broker.coordinators.effects import Effect, Reply, StoredRecord, Token
from ottla.broker.coordinators.groups.group_responses import (
    heartbeat_error,
    join_error,
    leave_unknown_members,
    sync_error,
)
from ottla.broker.requests.context import RequestContext
from ottla.errors import BrokerError, InconsistentGroupProtocol, UnknownMemberId
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.sync_group import SyncGroupRequest


class GroupKind(Enum):
    """The type of a group, as ListGroups spells it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(ABC):
    """One group. The checks raise the BrokerError that the client is to see."""

    kind: GroupKind
    group_id: str

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as ListGroups and DescribeGroups spell it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """It has no members, so that it may be deleted; somebody may have begun to join."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str: ...

    @abstractmethod
    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, api_version: int
    ) -> None: ...

    def why_not_commit(
        self, member_id: str, generation: int, topic: str, topic_id: bytes, partition: int
    ) -> BrokerError | None:
        """Why this partition may not be committed by a request that check_offset_commit let in; None: it may."""
        return None

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    @abstractmethod
    def check_offset_delete(self) -> None: ...

    @abstractmethod
    def check_delete(self) -> None: ...

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the offsets of that topic are in use, so that they are neither expired nor deleted."""

    @abstractmethod
    def retention_start_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset committed at that time is counted; None: it is not counted now."""

    @abstractmethod
    def tombstones(self) -> tuple[StoredRecord, ...]:
        """What removes the group, without its offsets, from the log. Its timers may run on: they find nobody."""

    @property
    def expires(self) -> bool:
        """Whether the group goes away by itself when it is empty and holds no offsets."""
        return True

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.listed_protocol_type,
            group_state=self.state_name,
            group_type=self.kind.value,
        )


G = TypeVar("G", bound=Group)

# What one kind of record does: key, value (None: tombstone), offset in the log, producer id.
Replay: TypeAlias = Callable[[Any, Any, int, int], None]


class GroupProtocol(ABC, Generic[G]):
    """The code behind one kind of group; it keeps nothing, the state is in the groups."""

    @abstractmethod
    def loaded(self, group: G, now_ms: int) -> list[Effect]:
        """The log is replayed: set the timers of this group."""

    @abstractmethod
    def unload(self, group: G) -> list[Effect]:
        """Leadership is lost: answer every waiting request NOT_COORDINATOR."""

    @abstractmethod
    def timer_fired(self, group: G, key: Hashable, now_ms: int) -> list[Effect]: ...

    def topics_changed(self, group: G, names: frozenset[str] | None) -> None:
        """These topics were made, changed or deleted; None: it may be any. Only a kind that assigns cares."""

    def offsets_committed(self, group: G, member_id: str, now_ms: int) -> list[Effect]:
        """A member has committed offsets; a kind may take that as a sign of life."""
        return []

    def join(
        self, group: G, token: Token, request: JoinGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return [Reply(token, join_error(InconsistentGroupProtocol(), context.api_version))]

    def sync(
        self, group: G, token: Token, request: SyncGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return [Reply(token, sync_error(UnknownMemberId()))]

    def heartbeat(
        self, group: G, token: Token, request: HeartbeatRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return [Reply(token, heartbeat_error(UnknownMemberId()))]

    def leave(
        self, group: G, token: Token, request: LeaveGroupRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        return [Reply(token, leave_unknown_members(request, context.api_version))]
