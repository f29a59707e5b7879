"""What is read and how far: assigned partitions, their positions, what is paused, and what must be found out first.

A partition is in one of four states, and moves as MOVES says:

    INITIALIZING      just assigned: the committed offset is looked up, or a seek comes
    AWAIT_RESET       no usable offset: a broker is asked where earliest, latest or a time is
    AWAIT_VALIDATION  the leader changed: is our position still in its log? (OffsetForLeaderEpoch, KIP-320)
    FETCHING          there is a position, and it is good

1. The position is the offset of the next record that poll() will give. `fetch_offset` runs ahead of it: it is where
   the next fetch goes on behind what is already buffered. A seek sets both and ends everything that was under way for
   the partition: whoever carries an answer home shows the `turn` that it began in, and an old one is not taken.
2. subscribe(), a pattern and assign() exclude each other until unsubscribe().
3. Only partitions that are assigned, not paused and in FETCHING are read.
4. Order is fairness: `fetchable` returns partitions in a rotating order; whoever got records goes to the end.

Plain: no clock, no lock, no socket. The consumer's lock guards it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Set
from enum import Enum
from typing import Final

from ottla.client.consumer.offset_reset import ResetPolicy
from ottla.errors import IllegalMove, OttlaError
from ottla.light_dataclasses import dataclass, replace
from ottla.values import OffsetAndMetadata, TopicPartition


class NotAssigned(OttlaError):
    """That partition is not assigned to this consumer. Assign it, or wait until the group gives it to this member."""


class SubscriptionConflict(OttlaError):
    """subscribe(), subscribe(pattern=...) and assign() exclude each other. Call unsubscribe() first."""


class NotSubscribed(OttlaError):
    """This consumer reads nothing: it has no subscription and no assignment. Call subscribe() or assign() first."""


class NoOffsetForPartition(OttlaError):
    """There is no committed offset and auto.offset.reset=none. Seek to where reading should begin."""

    def __init__(self, detail: str | None = None, partitions: Collection[TopicPartition] = ()) -> None:
        super().__init__(detail)
        self.partitions = frozenset(partitions)


class LogTruncated(OttlaError):
    """The log of a partition was cut off below the position: records that were read are gone (an unclean leader
    election). Seek to the offset in `error.diverging_offset`, or set auto.offset.reset."""

    def __init__(
        self,
        detail: str | None = None,
        topic_partition: TopicPartition | None = None,
        offset: int = -1,
        diverging_offset: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.topic_partition = topic_partition
        self.offset = offset
        self.diverging_offset = diverging_offset


class State(Enum):
    INITIALIZING = "initializing"
    AWAIT_RESET = "await reset"
    AWAIT_VALIDATION = "await validation"
    FETCHING = "fetching"


MOVES: Final = {
    State.INITIALIZING: {State.AWAIT_RESET, State.AWAIT_VALIDATION, State.FETCHING},
    State.AWAIT_RESET: {State.AWAIT_RESET, State.AWAIT_VALIDATION, State.FETCHING},
    State.AWAIT_VALIDATION: {State.AWAIT_RESET, State.AWAIT_VALIDATION, State.FETCHING},
    State.FETCHING: {State.AWAIT_RESET, State.AWAIT_VALIDATION, State.FETCHING},
}


class Mode(Enum):
    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a pattern"
    ASSIGNED = "an assignment"


@dataclass(frozen=True, slots=True)
class Position:
    """The next record, the epoch of the record before it, and the epoch of the leader that we believe in."""

    offset: int
    offset_epoch: int | None = None
    leader_epoch: int | None = None


class PartitionState:
    """One assigned partition."""

    __slots__ = (
        "_state",
        "express_turn",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "name",
        "paused",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "retry_at_ms",
        "stop_offset",
        "turn",
    )

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self._state = State.INITIALIZING
        self.position: Position | None = None
        self.fetch_offset = -1
        self.leader_epoch: int | None = None
        self.turn = 0
        self.express_turn = -1  # the last turn that had its express fetch (fetcher.py)
        self.paused = False
        self.stop_offset: int | None = None  # nothing at or behind it is wanted
        self.reset: ResetPolicy | None = None
        self.retry_at_ms = 0.0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_replica: int | None = None
        self.preferred_until_ms = 0.0

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_fetchable(self) -> bool:
        return self._state is State.FETCHING and not self.paused

    @property
    def is_fetched(self) -> bool:
        """Whether everything that is wanted was fetched."""
        return self.stop_offset is not None and self.fetch_offset >= self.stop_offset

    @property
    def is_read(self) -> bool:
        """Whether everything that is wanted was given."""
        return self.stop_offset is not None and self.position is not None and self.position.offset >= self.stop_offset

    @property
    def has_position(self) -> bool:
        """Whether poll() knows where it is, be it checked or not."""
        return self._state in (State.FETCHING, State.AWAIT_VALIDATION)

    def move(self, state: State) -> None:
        if state not in MOVES[self._state]:
            raise IllegalMove(f"{self.name} goes from {self._state.value} to {state.value}")
        self._state = state

    def restart(self) -> None:
        """Whatever is buffered or under way belongs to the past."""
        self.turn += 1
        self.retry_at_ms = 0.0


class Subscription:
    """Everything one consumer reads."""

    def __init__(self, default_reset: ResetPolicy) -> None:
        self.default_reset = default_reset
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | str | None = None
        self._states: dict[TopicPartition, PartitionState] = {}
        self._turns = 0

    # --- what the user wants ---

    def subscribe(self, topics: Collection[str]) -> None:
        self._enter(Mode.TOPICS)
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: re.Pattern[str] | str) -> None:
        """A compiled pattern is matched here, a text is for the broker (RE2, KIP-848)."""
        self._enter(Mode.PATTERN)
        self.pattern = pattern
        self.topics = frozenset()

    def matched(self, topics: Iterable[str]) -> bool:
        """The topics there are now; True when what a compiled pattern matches changed."""
        if not isinstance(self.pattern, re.Pattern):
            return False
        found = frozenset(topic for topic in topics if self.pattern.search(topic))
        changed, self.topics = found != self.topics, found
        return changed

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._enter(Mode.ASSIGNED)
        self.topics = frozenset(partition.topic for partition in partitions)
        self.set_assignment(partitions)

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics, self.pattern = frozenset(), None
        self.set_assignment(())

    def _enter(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise SubscriptionConflict(f"this consumer has {self.mode.value} already, and now gets {mode.value}")
        self.mode = mode

    @property
    def is_group_managed(self) -> bool:
        return self.mode in (Mode.TOPICS, Mode.PATTERN)

    # --- what is assigned ---

    def set_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these; those that stay keep their positions. A set has no order of its own that two runs share."""
        wanted = dict.fromkeys(sorted(partitions) if isinstance(partitions, Set) else partitions)
        self._states = {name: self._states.get(name) or self._new(name) for name in wanted}

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        for name in partitions:
            self._states.pop(name, None)

    def _new(self, name: TopicPartition) -> PartitionState:
        # Turns never repeat, also for a partition that left and came back while an answer was on its way.
        self._turns += 1_000_000
        state = PartitionState(name)
        state.turn = self._turns
        return state

    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def get(self, name: TopicPartition) -> PartitionState | None:
        return self._states.get(name)

    def state(self, name: TopicPartition) -> PartitionState:
        found = self._states.get(name)
        if found is None:
            raise NotAssigned(f"{name}; assigned are {_shown(self._states)}")
        return found

    def fetchable(self) -> list[PartitionState]:
        return [state for state in self._states.values() if state.is_fetchable]

    def served(self, name: TopicPartition) -> None:
        """It got records: others first next time."""
        if (state := self._states.pop(name, None)) is not None:
            self._states[name] = state

    # --- where we are ---

    def seek(self, name: TopicPartition, offset: int, *, offset_epoch: int | None = None) -> None:
        """Go on reading at `offset`."""
        state = self.state(name)
        state.move(State.FETCHING)
        self._place(state, Position(offset, offset_epoch, state.leader_epoch))

    def read_range(self, name: TopicPartition, start: int, stop: int) -> None:
        """Read from `start` and nothing at or behind `stop`."""
        self.seek(name, start)
        self.state(name).stop_offset = stop

    def _place(self, state: PartitionState, position: Position) -> None:
        state.restart()
        state.position = position
        state.fetch_offset = position.offset
        state.reset = None
        state.preferred_replica = None

    def request_reset(self, name: TopicPartition, policy: ResetPolicy | None = None) -> None:
        """Find out again where to read, by `policy` or the default one."""
        state = self.state(name)
        state.move(State.AWAIT_RESET)
        state.restart()
        state.position = None
        state.reset = policy or self.default_reset

    def reset_to(self, name: TopicPartition, turn: int, offset: int, epoch: int | None) -> bool:
        """What a broker said; False when the partition has moved on since it was asked."""
        state = self._states.get(name)
        if state is None or state.turn != turn or state.state is not State.AWAIT_RESET:
            return False
        state.move(State.FETCHING)
        self._place(state, Position(offset, epoch, state.leader_epoch))
        return True

    def initialized(self, name: TopicPartition, turn: int, committed: OffsetAndMetadata | None) -> None:
        """What the group has committed, or that it has nothing; NoOffsetForPartition when nobody knows."""
        state = self._states.get(name)
        if state is None or state.turn != turn or state.state is not State.INITIALIZING:
            return
        if committed is not None:
            state.move(State.FETCHING)
            self._place(state, Position(committed.offset, committed.leader_epoch, state.leader_epoch))
        elif self.default_reset.decides:
            self.request_reset(name)
        else:
            raise NoOffsetForPartition(f"{name}", [name])

    def has_no_beginning(self, names: Iterable[TopicPartition]) -> bool:
        """Whether one of them is still waiting to be told where to begin."""
        states = (self._states.get(name) for name in names)
        return any(state is not None and state.state is State.INITIALIZING for state in states)

    def advance(self, name: TopicPartition, offset: int, epoch: int | None) -> None:
        """poll() gave everything before `offset`."""
        state = self._states.get(name)
        if state is not None and state.position is not None:
            state.position = Position(offset, epoch if epoch is not None else state.position.offset_epoch,
                                      state.position.leader_epoch)  # fmt: skip

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit: the positions of everything that has one."""
        found = {}
        for state in self._states.values():
            if state.position is not None and state.has_position:
                found[state.name] = OffsetAndMetadata(state.position.offset, "", state.position.offset_epoch)
        return found

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        for state in [self.state(name) for name in partitions]:
            state.paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for state in [self.state(name) for name in partitions]:
            state.paused = False

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(state.name for state in self._states.values() if state.paused)

    # --- what must be found out ---

    def initializing(self) -> list[PartitionState]:
        return [state for state in self._states.values() if state.state is State.INITIALIZING]

    def awaiting(self, state: State, now_ms: float) -> list[PartitionState]:
        """Those in AWAIT_RESET or AWAIT_VALIDATION that may be asked for now."""
        return [each for each in self._states.values() if each.state is state and each.retry_at_ms <= now_ms]

    def next_retry_ms(self) -> float:
        """When one of those may be asked for again."""
        waiting = (State.AWAIT_RESET, State.AWAIT_VALIDATION)
        return min((each.retry_at_ms for each in self._states.values() if each.state in waiting), default=float("inf"))

    def leader_is(self, name: TopicPartition, epoch: int | None) -> bool:
        """Metadata says who leads; True when the position must be checked with the new leader first."""
        state = self._states.get(name)
        if state is None or epoch == state.leader_epoch:
            return False
        is_newer = state.leader_epoch is not None and epoch is not None and epoch > state.leader_epoch
        state.leader_epoch = epoch
        position = state.position
        if position is None or not state.has_position:
            return False
        state.position = replace(position, leader_epoch=epoch)
        # Without the epoch of the last record there is nothing to compare; a first look is no change.
        if epoch is None or position.offset_epoch is None or not is_newer:
            return False
        state.move(State.AWAIT_VALIDATION)
        state.restart()
        state.fetch_offset = position.offset
        return True

    def validated(self, name: TopicPartition, turn: int, end_epoch: int, end_offset: int) -> LogTruncated | None:
        """The new leader's log ends the epoch of our last record at `end_offset`; the error for a user who decides."""
        state = self._states.get(name)
        if state is None or state.turn != turn or state.state is not State.AWAIT_VALIDATION or state.position is None:
            return None
        position = state.position
        known = end_offset >= 0 and end_epoch >= 0
        if known and end_offset >= position.offset:
            state.move(State.FETCHING)
            return None
        if not self.default_reset.decides:
            return _truncation(name, position, end_offset if known else None)
        if known:
            state.move(State.FETCHING)
            self._place(state, Position(end_offset, end_epoch, state.leader_epoch))
        else:
            self.request_reset(name)
        return None

    def not_validated(self, name: TopicPartition, turn: int) -> None:
        """The broker is too old to be asked; believe the position."""
        state = self._states.get(name)
        if state is not None and state.turn == turn and state.state is State.AWAIT_VALIDATION:
            state.move(State.FETCHING)


def _truncation(name: TopicPartition, position: Position, diverging_offset: int | None) -> LogTruncated:
    where = "nobody knows where" if diverging_offset is None else f"at offset {diverging_offset}"
    detail = f"{name} was read up to {position.offset}, the log of its leader goes another way {where}"
    return LogTruncated(detail, name, position.offset, diverging_offset)


def _shown(partitions: Collection[TopicPartition]) -> str:
    names = [str(name) for name in list(partitions)[:5]]
    return ", ".join(names) + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "") or "none"
