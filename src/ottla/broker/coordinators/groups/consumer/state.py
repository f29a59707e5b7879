"""The states of a consumer group and of its members.

A group's state follows from its members and epochs, so it is computed, never set:

    Empty         no members
    Assigning     the group changed, the target assignment is not made yet
    Reconciling   some member is not where it should be
    Stable        every member is
    Dead          the group does not exist

A member's state is kept in the log and moves by MOVES, in reconciliation.py only:

    STABLE                 has what the target of its epoch assigns to it
    UNREVOKED_PARTITIONS   has to give up partitions first; stays in its epoch until it says that it has
    UNRELEASED_PARTITIONS  waits for partitions that others have not released yet
    UNKNOWN                written by a newer version; the member has to begin again
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

from ottla.errors import IllegalMove


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The numbers are those in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


STABLE: Final = MemberState.STABLE
UNREVOKED: Final = MemberState.UNREVOKED_PARTITIONS
UNRELEASED: Final = MemberState.UNRELEASED_PARTITIONS
UNKNOWN: Final = MemberState.UNKNOWN

_KNOWN: Final = frozenset({STABLE, UNREVOKED, UNRELEASED})
MOVES: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    STABLE: _KNOWN,
    UNREVOKED: _KNOWN,
    UNRELEASED: _KNOWN,
    UNKNOWN: _KNOWN,  # nobody moves to a state that nobody knows
}


def state_of_number(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return UNKNOWN


def checked_move(now: MemberState, then: MemberState) -> MemberState:
    if then not in MOVES[now]:
        raise IllegalMove(f"a member cannot move from {now.name} to {then.name}", story=[])
    return then


# Epochs with a meaning of their own, in requests and in the log.
JOIN: Final = 0
LEAVE: Final = -1
STATIC_LEAVE: Final = -2  # the member will come back under its instance id; its partitions wait for it
