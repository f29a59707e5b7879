"""The timers of a group shard, by what they wait for.

A timer that fires for a group or member that is gone means nothing, so it need not always be cancelled.
"""

from __future__ import annotations

from ottla.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupTimer:
    """A timer that belongs to one group; the group's kind says what it means."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SessionTimer(GroupTimer):
    """No sign of life from a member, or a pending member did not come back."""

    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer(GroupTimer):
    """Not all members came back for the rebalance; or, for an empty group, the time to come together is over."""


@dataclass(frozen=True, slots=True)
class SyncTimer(GroupTimer):
    """Not all members fetched their assignment."""


@dataclass(frozen=True, slots=True)
class ConsumerTimer(GroupTimer):
    """A timer of a consumer group; it means nothing to a group that has become classic."""


@dataclass(frozen=True, slots=True)
class StreamsTimer(GroupTimer):
    """A timer of a streams group; it means nothing to a group of another kind that has its name now."""


@dataclass(frozen=True, slots=True)
class CallTimer(GroupTimer):
    """Call the members of a group that has just become classic again."""


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """Look for offsets and groups that are too old."""
