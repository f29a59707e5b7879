"""The states of a member of a classic group, and what each error of each request means to it.

    UNJOINED --poll--> PREPARING --given up what must be--> JOINING --answer--> SYNCING (leader: LEARNING first)
    SYNCING --assignment--> STABLE (cooperative: APPLYING first, while partitions are given up) --rebalance--> PREPARING
    any --leave()--> LEAVING --> LEFT;   any --error nobody can mend--> FAILED

PREPARING, APPLYING and STABLE send heartbeats; so do LEARNING and SYNCING, because a leader may take its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.errors import (
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    OttlaError,
    RebalanceInProgress,
    UnknownMemberId,
    UnsupportedVersion,
)


class MemberState(Enum):
    UNJOINED = "unjoined"
    PREPARING = "giving up partitions before joining"
    JOINING = "joining"
    LEARNING = "learning of topics before assigning"
    SYNCING = "waiting for the assignment"
    APPLYING = "giving up partitions of the last assignment"
    STABLE = "stable"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


_S = MemberState
_ALWAYS: Final = frozenset({_S.LEAVING, _S.LEFT, _S.FAILED, _S.UNJOINED})

MOVES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    _S.UNJOINED: frozenset({_S.PREPARING, _S.JOINING}) | _ALWAYS,
    _S.PREPARING: frozenset({_S.PREPARING, _S.JOINING}) | _ALWAYS,
    _S.JOINING: frozenset({_S.JOINING, _S.LEARNING, _S.SYNCING, _S.PREPARING}) | _ALWAYS,
    _S.LEARNING: frozenset({_S.SYNCING}) | _ALWAYS,
    _S.SYNCING: frozenset({_S.STABLE, _S.APPLYING}) | _ALWAYS,
    _S.APPLYING: frozenset({_S.STABLE}) | _ALWAYS,
    _S.STABLE: frozenset({_S.PREPARING, _S.JOINING}) | _ALWAYS,
    _S.LEAVING: _ALWAYS,
    _S.LEFT: frozenset({_S.UNJOINED, _S.LEFT, _S.FAILED}),
    _S.FAILED: frozenset({_S.FAILED, _S.LEAVING, _S.LEFT, _S.UNJOINED}),
}

HEARTBEATING: Final = frozenset({_S.PREPARING, _S.LEARNING, _S.SYNCING, _S.APPLYING, _S.STABLE})


class Reaction(Enum):
    """What an error does to the membership."""

    RETRY = "try again after a back-off"
    FIND_COORDINATOR = "find the coordinator and try again"
    JOIN_WITH_ID = "join again with the id that came along"
    REJOIN = "join again as the same member"
    NEW_GENERATION = "join again with the same member id but nothing else"
    NEW_MEMBER = "join again as somebody new"
    FAIL = "tell the application"


_FATAL: Final = (
    FencedInstanceId,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    InvalidGroupId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    UnsupportedVersion,
)


def reaction_to(error: OttlaError) -> Reaction:
    """The same for JoinGroup, SyncGroup, Heartbeat and OffsetCommit."""
    if isinstance(error, MemberIdRequired):
        return Reaction.JOIN_WITH_ID
    if isinstance(error, RebalanceInProgress):
        return Reaction.REJOIN
    if isinstance(error, IllegalGeneration):
        return Reaction.NEW_GENERATION
    if isinstance(error, UnknownMemberId):
        return Reaction.NEW_MEMBER
    if isinstance(error, _FATAL):
        return Reaction.FAIL
    if error.refresh_coordinator or (error.retriable and error.refresh_metadata):
        return Reaction.FIND_COORDINATOR  # the second: the connection broke, which is how a dead coordinator looks
    return Reaction.RETRY if error.retriable else Reaction.FAIL
