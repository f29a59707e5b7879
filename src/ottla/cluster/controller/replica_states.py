"""The states of a replica, and which may follow which.

    NON_EXISTENT          not assigned
    NEW                   assigned, its broker does not know yet
    ONLINE                its broker is there and has it
    OFFLINE               its broker or its disk is away, or it is to be deleted
    DELETION_STARTED      its broker was ordered to delete it
    DELETION_INELIGIBLE   it cannot be deleted now: its broker is away, or failed to do it
    DELETION_SUCCESSFUL   its broker has deleted it; the topic waits for the others

Only those of topics that are being deleted are kept (state.py); whether another is online is in the image.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final

from ottla.cluster.controller.moves import move


class ReplicaState(Enum):
    """See above."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_INELIGIBLE = "deletion ineligible"
    DELETION_SUCCESSFUL = "deletion successful"

    def __str__(self) -> str:
        return self.value


(
    NON_EXISTENT,
    NEW,
    ONLINE,
    OFFLINE,
    DELETION_STARTED,
    DELETION_INELIGIBLE,
    DELETION_SUCCESSFUL,
) = ReplicaState

MOVES: Final[Mapping[ReplicaState, Set[ReplicaState]]] = {
    NON_EXISTENT: {NEW},
    NEW: {ONLINE, OFFLINE},
    ONLINE: {ONLINE, OFFLINE},
    OFFLINE: {ONLINE, OFFLINE, DELETION_STARTED, DELETION_INELIGIBLE},
    DELETION_STARTED: {DELETION_SUCCESSFUL, DELETION_INELIGIBLE},
    DELETION_INELIGIBLE: {ONLINE, OFFLINE},
    DELETION_SUCCESSFUL: {NON_EXISTENT},
}


def move_replica(subject: object, *path: ReplicaState) -> ReplicaState:
    """The state of a replica at the end of the path; IllegalMove when a step is not in the table."""
    return move(MOVES, f"replica {subject}", path)
