"""The states of a member of a consumer group (KIP-848), and what each error means to it.

UNJOINED --poll--> JOINING --> STABLE <--> RECONCILING --changes carried out--> ACKNOWLEDGING --told--> STABLE
FENCED: the group went on without us; everything is lost, then JOINING again
STALE:  the application does not poll; we left, and join again when it does
LEAVING --> LEFT;   FAILED: only a new subscription helps
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.errors import (
    FencedMemberEpoch,
    OttlaError,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
)


class ConsumerState(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    FENCED = "fenced"
    STALE = "stale"
    LEAVING = "leaving"
    LEFT = "left"
    FAILED = "failed"


_S = ConsumerState
_ALWAYS: Final = frozenset({_S.LEAVING, _S.FAILED, _S.FENCED, _S.STALE})

MOVES: Final[Mapping[ConsumerState, frozenset[ConsumerState]]] = {
    _S.UNJOINED: frozenset({_S.JOINING, _S.LEAVING, _S.LEFT}),
    _S.JOINING: frozenset({_S.JOINING, _S.STABLE, _S.RECONCILING}) | _ALWAYS,
    _S.STABLE: frozenset({_S.STABLE, _S.RECONCILING}) | _ALWAYS,
    _S.RECONCILING: frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE}) | _ALWAYS,
    _S.ACKNOWLEDGING: frozenset({_S.ACKNOWLEDGING, _S.STABLE, _S.RECONCILING}) | _ALWAYS,
    _S.FENCED: frozenset({_S.JOINING, _S.LEAVING, _S.FAILED, _S.STALE}),
    _S.STALE: frozenset({_S.JOINING, _S.LEAVING, _S.FAILED}),
    _S.LEAVING: frozenset({_S.LEFT}),
    _S.LEFT: frozenset({_S.UNJOINED, _S.LEFT}),
    _S.FAILED: frozenset({_S.UNJOINED, _S.LEAVING, _S.FAILED}),
}

IN_GROUP: Final = frozenset({_S.STABLE, _S.RECONCILING, _S.ACKNOWLEDGING})
HEARTBEATING: Final = IN_GROUP | {_S.JOINING}


class Reaction(Enum):
    RETRY = "try again after a back-off"
    FIND_COORDINATOR = "find the coordinator and try again"
    FENCED = "give everything up and join again"
    TELL = "tell the application and go on"
    FAIL = "tell the application and stop"


def reaction_to(error: OttlaError) -> Reaction:
    if isinstance(error, FencedMemberEpoch | UnknownMemberId):
        return Reaction.FENCED
    if isinstance(error, StaleMemberEpoch):
        return Reaction.RETRY
    if isinstance(error, TopicAuthorizationFailed):
        # The others are still ours to read, and the right may be granted any moment.
        return Reaction.TELL
    if error.refresh_coordinator or (error.retriable and error.refresh_metadata):
        return Reaction.FIND_COORDINATOR
    return Reaction.RETRY if error.retriable else Reaction.FAIL
