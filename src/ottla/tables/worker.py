"""The worker of one table: a machine that says what to do next, and hears what came of it.

    worker = TableWorker(TableRules())
    action = worker.next()                LoadTable, DescribeTopic, Stage, Commit, Discard, Wait or Halt
    worker.staged(portion, now_ms)        what came of it: one method for each answer

    LOADING ──► DESCRIBING ──► CLAIMING       first, and once
                DESCRIBING ──► STAGING        then over and over, with WAITING where there is not enough to do
                DESCRIBING ──► COMMITTING     and again, where it was refused or its answer was lost
                any     ──► DISCARDING ──► HALTED, where a person has to choose

1. The marker in the table is all the state there is (marker.py). Whatever was not committed is read again by who starts
   next; files that no commit names are garbage.
2. Before anything else a worker claims the table: it commits the next epoch, with no rows. So of two workers the first
   one's next commit finds another epoch, and it halts: rows of an offset come from one commit only.
3. A commit names the marker that it found and the one that it leaves. Where its answer is lost, or the table has
   changed beside (somebody compacts), it is made again with the same files. One that is refused meets a marker: of my
   epoch and with these offsets it is mine, made before; the old one is tried again; any other is another writer's.
   Files of a commit whose answer was lost are never deleted by who gives up: the table may name them.
4. A commit has files of one schema. It is due when there is enough, or when what waits for it has waited for lag_ms; a
   portion is read when there is enough for a file, or at that time.
5. A gap is part of the commit that goes over it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.tables.marker import Marker
from ottla.tables.reach import Gap, Halt, Reach, TopicDescription, beginning, other_topic, reach

RECORD_BYTES_GUESS: Final = 1_000
PORTIONS_MAX: Final = 1_000


@dataclass(frozen=True)
class TableRules:
    """How a table is kept, from the settings of its topic (ottla.table.*)."""

    lag_ms: int = 60_000
    commit_bytes: int = 134_217_728
    portion_bytes: int = 16_777_216
    poll_interval_ms: int = 1_000
    stops_at_gaps: bool = False
    tries: int = 20
    retry_ms: int = 500


class Portion(NamedTuple):
    """What was read and written into files that no commit names yet: up to where, by partitions. Gaps are those that
    were found while reading."""

    files: tuple[str, ...]
    next_offsets: Mapping[int, int]
    byte_count: int
    schema: Hashable
    gaps: tuple[Gap, ...] = ()


# -- what to do --------------------------------------------------------------------------------------------------------


class LoadTable(NamedTuple):
    """Read the marker: table_loaded()."""


class DescribeTopic(NamedTuple):
    """Ask for its id, and where its partitions begin and end: topic_described()."""


class Stage(NamedTuple):
    """Read these ranges, as far as about so many bytes go, into files: staged()."""

    ranges: Mapping[int, tuple[int, int]]
    bytes_max: int


class Commit(NamedTuple):
    """Add these files and leave the marker `after`, if it is `before` now; and do not try again by yourself:
    committed(), refused() or answer_lost()."""

    before: Marker | None
    after: Marker
    files: tuple[str, ...] = ()
    schema: Hashable = None
    gaps: tuple[Gap, ...] = ()


class Discard(NamedTuple):
    """Delete these files, which no commit names: discarded()."""

    files: tuple[str, ...]


class Wait(NamedTuple):
    """Until this moment: woken()."""

    until_ms: int


Action = LoadTable | DescribeTopic | Stage | Commit | Discard | Wait | Halt


class State(Enum):
    LOADING = "loading"
    DESCRIBING = "describing"
    CLAIMING = "claiming"
    STAGING = "staging"
    COMMITTING = "committing"
    WAITING = "waiting"
    DISCARDING = "discarding"
    HALTED = "halted"


MOVES: Final = {
    State.LOADING: {State.DESCRIBING},
    State.DESCRIBING: {State.CLAIMING, State.STAGING, State.COMMITTING, State.WAITING, State.DISCARDING, State.HALTED},
    State.CLAIMING: {State.DESCRIBING, State.WAITING, State.HALTED},
    State.STAGING: {State.DESCRIBING, State.WAITING, State.DISCARDING, State.HALTED},
    State.COMMITTING: {State.DESCRIBING, State.WAITING, State.DISCARDING, State.HALTED},
    State.WAITING: {State.DESCRIBING, State.COMMITTING},
    State.DISCARDING: {State.HALTED},
    State.HALTED: set(),
}


class TableWorker:
    """One table and its topic."""

    def __init__(self, rules: TableRules) -> None:
        self._rules = rules
        self._state = State.LOADING
        self._marker: Marker | None = None
        self._is_claimed = False
        self._topic: TopicDescription | None = None
        self._ranges: Mapping[int, tuple[int, int]] = {}
        self._portions: list[Portion] = []
        self._waiting_since_ms: int | None = None
        self._until_ms = 0
        self._after_wait = State.DESCRIBING
        self._tries = 0
        self._is_in_doubt = False
        self._record_bytes = RECORD_BYTES_GUESS
        self._halt = Halt("")

    @property
    def state(self) -> State:
        return self._state

    @property
    def marker(self) -> Marker | None:
        """How far the table is, as far as this worker knows."""
        return self._marker

    def next(self) -> Action:
        """What to do now; the same until its answer has come."""
        match self._state:
            case State.LOADING:
                return LoadTable()
            case State.DESCRIBING:
                return DescribeTopic()
            case State.CLAIMING:
                return Commit(self._marker, self._claim())
            case State.STAGING:
                return Stage(self._ranges, self._rules.portion_bytes)
            case State.COMMITTING:
                return self._commit()
            case State.WAITING:
                return Wait(self._until_ms)
            case State.DISCARDING:
                return Discard(self._garbage())
            case State.HALTED:
                return self._halt

    def _move(self, state: State) -> None:
        assert state in MOVES[self._state], f"a worker that is {self._state.value} cannot be {state.value}"
        self._state = state

    def _expect(self, *states: State) -> None:
        assert self._state in states, f"nobody asked for that: the worker is {self._state.value}"

    def _stop(self, halt: Halt) -> None:
        self._halt = halt
        self._move(State.DISCARDING if self._garbage() else State.HALTED)

    def _garbage(self) -> tuple[str, ...]:
        """Files that no commit can name."""
        portions = self._portions[self._one_schema() if self._is_in_doubt else 0 :]
        return tuple(file for portion in portions for file in portion.files)

    # -- answers -------------------------------------------------------------------------------------------------------

    def table_loaded(self, marker: Marker | None) -> None:
        self._expect(State.LOADING)
        self._marker = marker
        self._move(State.DESCRIBING)

    def topic_described(self, topic: TopicDescription, now_ms: int) -> None:
        self._expect(State.DESCRIBING)
        self._topic = topic
        halt = None if self._marker is None else other_topic(self._marker, topic)
        if halt is not None:
            self._stop(halt)
        elif not self._is_claimed:
            self._move(State.CLAIMING)
        else:
            self._plan(topic, now_ms)

    def staged(self, portion: Portion, now_ms: int) -> None:
        self._expect(State.STAGING)
        positions = self._positions()
        steps = [end - positions.get(partition, 0) for partition, end in portion.next_offsets.items()]
        assert all(step >= 0 for step in steps), "a portion goes on where the last one ended"
        if not any(steps):
            self._wait(State.DESCRIBING, now_ms + self._rules.poll_interval_ms)
            return
        if portion.files:
            self._record_bytes = max(1, portion.byte_count // sum(steps))
        self._portions.append(portion)
        self._move(State.DESCRIBING)

    def staging_stopped(self, halt: Halt) -> None:
        """A record is no row of the table, and its topic's settings say that a person is to look at it."""
        self._expect(State.STAGING)
        self._stop(halt)

    def abandoned(self) -> tuple[str, ...]:
        """Files that no commit can name when this worker is given up now."""
        return self._garbage()

    def committed(self, now_ms: int) -> None:
        self._expect(State.CLAIMING, State.COMMITTING)
        self._is_mine(now_ms)

    def refused(self, found: Marker | None, now_ms: int) -> None:
        """The table changed beside; this is its marker now."""
        self._expect(State.CLAIMING, State.COMMITTING)
        if self._state is State.CLAIMING:
            self._marker = found
            self._try_again(now_ms)
        else:
            self._judge(found, now_ms)

    def answer_lost(self, now_ms: int) -> None:
        """Nobody knows whether the commit was made: trying it again tells."""
        self._expect(State.CLAIMING, State.COMMITTING)
        self._is_in_doubt = self._state is State.COMMITTING
        self._try_again(now_ms)

    def discarded(self) -> None:
        self._expect(State.DISCARDING)
        self._portions.clear()
        self._move(State.HALTED)

    def woken(self) -> None:
        self._expect(State.WAITING)
        self._move(self._after_wait)

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _claim(self) -> Marker:
        assert self._topic is not None, "a topic is described before its table is claimed"
        if self._marker is None:
            return Marker(self._topic.topic_id, 1, beginning(self._topic))
        return self._marker._replace(epoch=self._marker.epoch + 1)

    def _plan(self, topic: TopicDescription, now_ms: int) -> None:
        found = reach(self._positions(), topic, stops_at_gaps=self._rules.stops_at_gaps)
        if isinstance(found, Halt):
            self._stop(found)
            return
        if found.gaps:
            ends = {gap.partition: gap.end for gap in found.gaps}
            self._portions.append(Portion((), ends, 0, None, found.gaps))
        if self._waiting_since_ms is None and (found.ranges or self._portions):
            self._waiting_since_ms = now_ms
        if self._is_due(found, now_ms):
            self._move(State.COMMITTING)
        elif found.ranges and self._is_worth_reading(found, now_ms):
            self._ranges = found.ranges
            self._move(State.STAGING)
        else:
            self._wait(State.DESCRIBING, now_ms + self._rules.poll_interval_ms)

    def _is_due(self, found: Reach, now_ms: int) -> bool:
        """Whether what was staged is to be committed now; at the deadline what can still be read is read before."""
        if not self._portions:
            return False
        enough = sum(portion.byte_count for portion in self._portions) >= self._rules.commit_bytes
        many = len(self._portions) >= PORTIONS_MAX
        is_late = now_ms >= self._deadline_ms(now_ms)
        return enough or many or self._one_schema() < len(self._portions) or (is_late and self._has_read(found))

    def _has_read(self, found: Reach) -> bool:
        """Something was staged, or there is nothing that could be: under load a deadline does not wait for the end."""
        return not found.ranges or any(portion.files for portion in self._portions)

    def _is_worth_reading(self, found: Reach, now_ms: int) -> bool:
        return found.offsets * self._record_bytes >= self._rules.portion_bytes or now_ms >= self._deadline_ms(now_ms)

    def _deadline_ms(self, now_ms: int) -> int:
        return (now_ms if self._waiting_since_ms is None else self._waiting_since_ms) + self._rules.lag_ms

    def _positions(self) -> dict[int, int]:
        """Where reading goes on: behind what is committed, and behind what is staged."""
        assert self._marker is not None, "a worker claims before it reads"
        return _after(self._marker, self._portions)

    def _one_schema(self) -> int:
        """How many portions at the front have one schema; a gap alone fits to any."""
        schemas = [portion.schema for portion in self._portions if portion.files]
        for count, portion in enumerate(self._portions):
            if portion.files and portion.schema != schemas[0]:
                return count
        return len(self._portions)

    def _commit(self) -> Commit:
        assert self._marker is not None, "a worker claims before it commits"
        portions = self._portions[: self._one_schema()]
        return Commit(
            self._marker,
            self._marker._replace(next_offsets=_after(self._marker, portions)),
            tuple(file for portion in portions for file in portion.files),
            next((portion.schema for portion in portions if portion.files), None),
            tuple(gap for portion in portions for gap in portion.gaps),
        )

    def _judge(self, found: Marker | None, now_ms: int) -> None:
        """Whose is the marker that a commit left behind, or met?"""
        if found == self._commit().after:
            self._is_mine(now_ms)
        elif found == self._marker:
            self._try_again(now_ms)
        else:
            theirs = "none" if found is None else f"epoch {found.epoch}"
            ours = "none" if self._marker is None else f"epoch {self._marker.epoch}"
            self._stop(
                Halt(f"another writer has the table: its marker is of {theirs}, ours of {ours}. Let only one run")
            )

    def _is_mine(self, now_ms: int) -> None:
        if self._state is State.CLAIMING:
            self._marker, self._is_claimed = self._claim(), True
        else:
            count = self._one_schema()
            self._marker = self._commit().after
            del self._portions[:count]
            self._waiting_since_ms = now_ms if self._portions else None
        self._tries, self._is_in_doubt = 0, False
        self._move(State.DESCRIBING)

    def _try_again(self, now_ms: int) -> None:
        self._tries += 1
        if self._tries > self._rules.tries:
            why = f"{self._tries} commits in a row were not made"
            self._stop(Halt(f"{why}. See whether the table can be reached, and who else writes it", is_final=False))
            return
        again = State.DESCRIBING if self._state is State.CLAIMING else State.COMMITTING
        self._wait(again, now_ms + self._rules.retry_ms)

    def _wait(self, then: State, until_ms: int) -> None:
        self._after_wait, self._until_ms = then, until_ms
        self._move(State.WAITING)


def _after(marker: Marker, portions: list[Portion]) -> dict[int, int]:
    """The next offsets when these portions are in the table."""
    offsets = dict(marker.next_offsets)
    for portion in portions:
        offsets.update(portion.next_offsets)
    return dict(sorted(offsets.items()))
