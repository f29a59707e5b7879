"""The timers of streams groups; SessionTimer is shared with the other kinds."""

from __future__ import annotations

from ottla.broker.coordinators.groups.timers import StreamsTimer
from ottla.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamsRevocationTimer(StreamsTimer):
    """A member does not release the tasks that were revoked while it was in this epoch."""

    member_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class InitialAssignmentTimer(StreamsTimer):
    """A group that was empty has waited long enough for more members."""
