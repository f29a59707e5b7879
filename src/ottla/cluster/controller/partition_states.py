"""The states of a partition, and which may follow which.

    NON_EXISTENT   never made, or deleted
    NEW            replicas are assigned, nobody ever led it
    ONLINE         it has a leader
    OFFLINE        it had one; or its topic is being deleted

1. The state is read off the image; nobody keeps it twice. So a new controller knows it as well as the old one did.
2. What one change does may pass through states that no image shows: a partition that is made with its leader was NEW
   for a moment. `path` lists them, and every step of it must be in the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final

from ottla.cluster.controller.moves import move
from ottla.cluster.controller.state import is_being_deleted
from ottla.cluster.image import ClusterImage
from ottla.cluster.model import NO_LEADER
from ottla.cluster.store.events import NO_STATE
from ottla.values import TopicPartition


class PartitionState(Enum):
    """See above."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"

    def __str__(self) -> str:
        return self.value


NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionState

MOVES: Final[Mapping[PartitionState, Set[PartitionState]]] = {
    NON_EXISTENT: {NEW},
    NEW: {ONLINE, OFFLINE},
    ONLINE: {ONLINE, OFFLINE},
    OFFLINE: {ONLINE, OFFLINE, NON_EXISTENT},
}


def state_of(image: ClusterImage, name: TopicPartition) -> PartitionState:
    """Where a partition is."""
    partition = image.partition(name.topic, name.partition)
    if partition is None:
        return NON_EXISTENT
    if is_being_deleted(image, name.topic):
        return OFFLINE
    if partition.leader_epoch == NO_STATE:
        return NEW
    return OFFLINE if partition.leader == NO_LEADER else ONLINE


def path(before: PartitionState, after: PartitionState) -> list[PartitionState]:
    """The states that one change passes through."""
    if before is NON_EXISTENT and after in (ONLINE, OFFLINE):
        return [before, NEW, after]
    return [before] if before is after else [before, after]


def check(name: TopicPartition, before: ClusterImage, after: ClusterImage) -> PartitionState:
    """The partition's state after a change; IllegalMove when it cannot come after the one before."""
    return move(MOVES, f"partition {name}", path(state_of(before, name), state_of(after, name)))
