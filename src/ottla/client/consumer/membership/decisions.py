"""What a membership decides, as values; the story of how they are carried out is in the folder's __init__.

A GroupView is what a membership needs to know of the cluster: for each topic its id, and for each of its partitions
the racks where it has replicas (empty sets when racks are unknown).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from ottla.client.group_metadata import GroupMetadata
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass, field
from ottla.protocol.schema import Message
from ottla.values import ZERO_UUID, TopicPartition

NEVER_MS: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Ask:
    """Send `request` to the group's coordinator and tell what came of it.

    `timeout_ms` None means request.timeout.ms; a JoinGroup is answered only when all members came, so it may take
    longer. `best_effort`: the member is leaving, one try is enough.
    """

    request: Message
    ticket: int
    timeout_ms: float | None = None
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class ForgetCoordinator:
    """The coordinator has moved or cannot be reached."""

    reason: str


@dataclass(frozen=True, slots=True)
class LearnTopics:
    """The view lacks these: topics by name that other members subscribe to, or by id that we were assigned."""

    names: frozenset[str] = frozenset()
    ids: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Revoke:
    """These go to other members when we say so: stop reading them, commit, tell the listener."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Lost:
    """These are not ours any more, for `reason`: stop reading, do not commit, tell the listener."""

    partitions: frozenset[TopicPartition]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """`partitions` is all we have from now on, `added` what is new in it. `added` may be empty: a rebalance is over."""

    partitions: frozenset[TopicPartition]
    added: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Warn:
    """Something an operator should read."""

    message: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The consumer cannot be a member, or its application must know; poll() raises the error."""

    error: OttlaError


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call plan again at this time at the latest; always the last decision."""

    ms: float


Decision = Ask | ForgetCoordinator | LearnTopics | Revoke | Lost | Assigned | Warn | Fail | WakeAt
Change = Revoke | Lost | Assigned


class Leaving(Enum):
    """What leave() does to the membership in the group (KIP-1092)."""

    DEFAULT = "default"
    """Dynamic members leave the group at once; static members keep their place for session.timeout.ms."""
    LEAVE = "leave"
    REMAIN = "remain"


# --- what a membership is told ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the application wants to read: topics by name, or for KIP-848 a pattern that the broker matches (RE2).

    A pattern matched by the client is told as the topics it matches now.
    """

    topics: frozenset[str] = frozenset()
    pattern: str | None = None

    @property
    def is_empty(self) -> bool:
        return not self.topics and self.pattern is None


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as far as groups care."""

    partition_racks: tuple[frozenset[str], ...]
    topic_id: bytes = ZERO_UUID

    @property
    def partition_count(self) -> int:
        return len(self.partition_racks)

    @classmethod
    def of(cls, partition_count: int, topic_id: bytes = ZERO_UUID) -> TopicView:
        """A topic without racks."""
        return cls((frozenset(),) * partition_count, topic_id)


GroupView = Mapping[str, TopicView]


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """The settings of a member; times in milliseconds, names as in Kafka."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: float = 100.0
    retry_backoff_max_ms: float = 1_000.0
    rack: str | None = None
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    """partition.assignment.strategy, most wanted first; classic protocol only."""
    remote_assignor: str | None = None
    """group.remote.assignor; KIP-848 only, None leaves it to the broker."""
    custom_assignors: Mapping[str, Any] = field(default_factory=dict)
    """Assignors (assignors.Assignor) that the application brought, by name."""


class Membership(Protocol):
    """Both protocols, as the consumer sees them."""

    @property
    def member_id(self) -> str: ...
    @property
    def generation(self) -> int:
        """Generation (classic) or member epoch (KIP-848); -1 when not a member."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What is ours now."""

    @property
    def is_member(self) -> bool:
        """In the group with an assignment; offsets may be committed as this member."""

    @property
    def is_rebalancing(self) -> bool: ...
    @property
    def has_left(self) -> bool:
        """Nothing more will be asked: after leave(), when the last answer came or was given up."""

    def group_metadata(self) -> GroupMetadata: ...
    def plan(self, now_ms: float) -> list[Decision]: ...
    def answered(self, ask: Ask, response: Any, now_ms: float) -> None: ...
    def failed(self, ask: Ask, error: OttlaError, now_ms: float) -> None: ...
    def carried_out(self, change: Change, now_ms: float) -> None: ...
    def polled(self, now_ms: float) -> None: ...
    def subscription_changed(self, subscription: Subscription, now_ms: float) -> None: ...
    def metadata_changed(self, view: GroupView, now_ms: float) -> None: ...
    def commit_refused(self, error: OttlaError, now_ms: float, *, sent_as: GroupMetadata | None = None) -> None:
        """A commit was answered with an error that says something about the membership. `sent_as`: what the commit
        said of us; when we are somebody else by now, the error is old news."""

    def rejoin(self, reason: str, now_ms: float) -> None:
        """The application asks for a rebalance (enforce_rebalance)."""

    def leave(self, now_ms: float, *, how: Leaving = Leaving.DEFAULT) -> None:
        """Unsubscribe or close: give up all partitions (a Revoke comes out), then leave the group."""


def topic_names(partitions: Collection[TopicPartition]) -> frozenset[str]:
    return frozenset(partition.topic for partition in partitions)


# --- errors that only a member has -----------------------------------------------------------------------------------


class PollIntervalExceeded(OttlaError):
    """The application has not called poll() for max.poll.interval.ms, so this consumer left its group.
    Make max.poll.interval.ms larger, or work on fewer records between polls with a smaller max.poll.records."""


class NoCommonAssignor(OttlaError):
    """The members of the group have no partition.assignment.strategy in common, or the group chose one this
    consumer does not have. Configure one strategy that all members share."""
