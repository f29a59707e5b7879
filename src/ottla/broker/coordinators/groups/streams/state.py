"""The states of a streams group and of its members.

A group's state follows from its members, topology and epochs, so it is computed, never set:

    Empty         no members
    NotReady      the topology cannot run yet: topics are missing or do not fit together
    Assigning     the group changed, the target assignment is not made yet
    Reconciling   some member is not where it should be
    Stable        every member is
    Dead          the group does not exist

A member's state is kept in the log: STABLE, UNREVOKED_TASKS (has to give up tasks first and stays in its epoch until
it says that it has), UNRELEASED_TASKS (waits for tasks that others have not released yet), UNKNOWN (written by a newer
version; the member has to begin again).
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class StreamsGroupState(Enum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The numbers are those in the log; they are not those of consumer groups."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


STABLE: Final = MemberState.STABLE
UNREVOKED: Final = MemberState.UNREVOKED_TASKS
UNRELEASED: Final = MemberState.UNRELEASED_TASKS
UNKNOWN: Final = MemberState.UNKNOWN


def state_of_number(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        return UNKNOWN


class Status(IntEnum):
    """What a heartbeat's answer may say beside the tasks; the numbers are those on the wire."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


# Epochs with a meaning of their own, in requests and in the log.
JOIN: Final = 0
LEAVE: Final = -1
STATIC_LEAVE: Final = -2
