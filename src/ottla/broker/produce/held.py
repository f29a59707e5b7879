"""The answers of simple and of plain requests, held back until their partitions have committed what they wrote.

    held = HeldProduce(content, sizes, uncommitted, topic, version, broker.progress.next_turn)
    broker.progress.commits.hold(uncommitted, deadline_ms, held)      # resolved as a future would be

    held = HeldPlain(content, sizes, run, placed, log_starts, version)
    held.wait_for(broker, waits, timeout_ms, wants_all)               # a part of it is resolved for each partition

1. Requests that came together were appended to a partition by one write, so one commit is for all of them: they have
   one place in its line, at the offset behind the last.
2. What was written says that they were appended. If that is not to be acknowledged after all (the time is over, the
   partition is led elsewhere, its disk failed), the answers are written anew with the error, for all that was written
   to that partition.
3. They leave in the next turn of the loop, with all others that were resolved in this one (waiting/next_turn.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.held import HeldAnswers
from ottla.broker.produce.choice import write_run
from ottla.broker.produce.committed import Uncommitted, count_unacknowledged
from ottla.broker.produce.frames import PlainRun, ProduceResult, Topic
from ottla.broker.replication.partition import Partition
from ottla.broker.waiting.next_turn import NextTurn
from ottla.errors import RequestTimedOut
from ottla.net.framing import SIZE
from ottla.records.checks import PlacedBatch

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class HeldProduce(HeldAnswers):
    __slots__ = ("_is_done", "_next_turn", "_topic", "_uncommitted", "_version")

    def __init__(
        self,
        content: bytes,
        request_bytes: list[int],
        uncommitted: Uncommitted,
        topic: Topic,
        version: int,
        next_turn: NextTurn,
    ) -> None:
        super().__init__(content, request_bytes)
        self._uncommitted = uncommitted
        self._topic = topic
        self._version = version
        self._next_turn = next_turn
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def count_failure(self, broker: Broker, count: int) -> None:
        error = self._uncommitted.outcome.error
        if error is None:
            return
        for _ in range(count):
            count_unacknowledged(broker, self._uncommitted.partition.name.topic, error)

    def set_result(self, is_over: bool) -> None:
        """It is committed or cannot be any more; False when the time is over."""
        self._is_done = True
        if not is_over:
            self._uncommitted.outcome.refuse(RequestTimedOut())
        self._next_turn.add(self._let_go)

    def _let_go(self) -> None:
        outcome = self._uncommitted.outcome
        if outcome.error is not None:
            self.content = self._refusals(outcome)
        if self.counted is not None:
            self.counted()
        self.leave(self.content)

    def _refusals(self, outcome: ProduceResult) -> bytes:
        frames = frames_of(self.content)
        return write_run(self._version, frames, [[(self._topic, [outcome])] for _ in frames])


class HeldPlain(HeldAnswers):
    """The answers of a plain run, until the last of its partitions is committed, refused or out of time."""

    __slots__ = ("_left", "_log_starts", "_next_turn", "_orders", "_parts", "_placed", "_topic", "_version")

    def __init__(
        self,
        content: bytes,
        request_bytes: list[int],
        run: PlainRun,
        placed: dict[int, list[PlacedBatch]],
        log_starts: dict[int, int],
        version: int,
    ) -> None:
        super().__init__(content, request_bytes)
        # Not the run itself: it has the records, and their memory is wanted for what comes next.
        self._topic, self._orders = run.topic, run.orders
        self._placed = placed
        self._log_starts = log_starts
        self._version = version
        self._parts: list[_HeldPart] = []
        self._left = 0
        self._next_turn: NextTurn | None = None

    def wait_for(
        self, broker: Broker, waits: list[tuple[int, Partition, int]], timeout_ms: int, wants_all: bool
    ) -> None:
        """Stand in the line of each of these partitions, until its high watermark is at the given offset."""
        commits, self._next_turn = broker.progress.commits, broker.progress.next_turn
        deadline_ms = broker.clock.monotonic_ms() + timeout_ms
        self._left = len(waits)
        for index, partition, next_offset in waits:
            outcome = ProduceResult(index, log_start_offset=self._log_starts[index])
            part = _HeldPart(self, partition, next_offset, outcome, wants_all)
            self._parts.append(part)
            commits.hold(part, deadline_ms, part)

    def resolved(self) -> None:
        """One of its partitions is over."""
        self._left -= 1
        if not self._left:
            assert self._next_turn is not None, "who is in no line is not resolved"
            self._next_turn.add(self._let_go)

    def count_failure(self, broker: Broker, count: int) -> None:
        for part in self._parts:
            if part.outcome.error is not None:
                for _ in self._placed[part.outcome.index]:
                    count_unacknowledged(broker, part.partition.name.topic, part.outcome.error)

    def _let_go(self) -> None:
        for part in self._parts:
            if part.outcome.error is not None:
                self.content = self._written_anew()
                break
        if self.counted is not None:
            self.counted()
        self.leave(self.content)

    def _written_anew(self) -> bytes:
        """The same answers, with the errors that came since."""
        refused = {each.outcome.index: each.outcome for each in self._parts if each.outcome.error is not None}
        places = {index: iter(batches) for index, batches in self._placed.items()}
        answers = []
        for order in self._orders:
            results = []
            for index in order:
                first_offset = next(places[index]).base_offset
                placed = ProduceResult(index, first_offset, log_start_offset=self._log_starts[index])
                results.append(refused.get(index, placed))
            answers.append([(self._topic, results)])
        return write_run(self._version, frames_of(self.content), answers)


class _HeldPart(Uncommitted):
    """What a plain run wrote to one partition: in line for its commit, and resolved as a future would be."""

    __slots__ = ("_held", "_is_done")

    def __init__(
        self, held: HeldPlain, partition: Partition, next_offset: int, outcome: ProduceResult, wants_all: bool
    ) -> None:
        super().__init__(partition, next_offset, outcome, wants_all)
        self._held = held
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, is_over: bool) -> None:
        """It is committed or cannot be any more; False when the time is over."""
        self._is_done = True
        if not is_over:
            self.outcome.refuse(RequestTimedOut())
        self._held.resolved()


def frames_of(content: bytes) -> list[memoryview]:
    """What `write_run` needs of the requests to which these are the answers: their numbers. An answer has its own where
    a request has it, when the size of the answer counts as its first four bytes."""
    frames, position = [], 0
    while position < len(content):
        end = position + SIZE.size + SIZE.unpack_from(content, position)[0]
        frames.append(memoryview(content)[position:end])
        position = end
    return frames
