"""The states of a classic group and the moves between them.

    Empty                 no members; may still hold offsets
    PreparingRebalance    members are called together: joins wait here
    CompletingRebalance   all have joined; the leader assigns the partitions: syncs wait here
    Stable                everybody has an assignment
    Dead                  the group is being removed, or this broker no longer looks after it

Only `ClassicState.move_to` changes the state. A move that MOVES does not have is a bug in us, and the error says the
last moves. A group that comes out of the log has no past and `begin`s where its record says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Final

from ottla.errors import IllegalMove

STORY_LIMIT: Final = 8


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY: Final = GroupState.EMPTY
PREPARING_REBALANCE: Final = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD

MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({STABLE, PREPARING_REBALANCE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset({DEAD}),
}


class ClassicState:
    """Where a group is, where it was before, and since when."""

    __slots__ = ("_story", "current", "previous", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.begin(EMPTY, since_ms)

    def begin(self, state: GroupState, since_ms: int) -> None:
        """Forget the past: this is what a record in the log says. -1 ms when the record is too old to know."""
        self.current = state
        self.previous = DEAD
        self.since_ms = since_ms
        self._story: deque[str] = deque([f"began {state.value}"], maxlen=STORY_LIMIT)

    def move_to(self, state: GroupState, now_ms: int) -> None:
        if state not in MOVES[self.current]:
            raise IllegalMove(f"a group cannot move from {self.current.value} to {state.value}", story=self._story)
        self._story.append(f"{self.current.value} to {state.value} at {now_ms}")
        self.previous, self.current, self.since_ms = self.current, state, now_ms

    @property
    def can_rebalance(self) -> bool:
        return PREPARING_REBALANCE in MOVES[self.current]

    @property
    def is_first_rebalance(self) -> bool:
        """The group was empty before: its members get some time to join."""
        return self.current is PREPARING_REBALANCE and self.previous is EMPTY
