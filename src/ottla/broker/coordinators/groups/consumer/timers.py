"""The timers of consumer groups; SessionTimer is shared with classic groups."""

from __future__ import annotations

from ottla.broker.coordinators.groups.timers import ConsumerTimer
from ottla.broker.requests.context import RequestContext
from ottla.light_dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RevocationTimer(ConsumerTimer):
    """A member does not release what was revoked."""

    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicJoinTimer(ConsumerTimer):
    """A member of the classic protocol was called and does not join again."""

    member_id: str


@dataclass(frozen=True, slots=True)
class ClassicSyncTimer(ConsumerTimer):
    """A member of the classic protocol joined and does not fetch its assignment."""

    member_id: str


@dataclass(frozen=True, slots=True)
class RegexTimer(ConsumerTimer):
    """Match the group's regular expressions with the topics, right after the heartbeat that asked for it."""

    asked_by: RequestContext | None = field(default=None, compare=False)
