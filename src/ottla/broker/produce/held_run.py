"""The answers of requests that were appended the usual way, held back until the last of their partitions is committed.

    hold_run(broker, frames, added, version, timeout_ms)      # None when nothing has to be waited for

As in held.py the answers are written at once, without a coroutine and a future for each request. Where a partition
fails after that, or the time is over, what was refused is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.broker.network.held import HeldAnswers
from ottla.broker.produce.choice import write_run
from ottla.broker.produce.committed import Uncommitted, count_unacknowledged
from ottla.broker.produce.frames import ProduceResults
from ottla.broker.produce.held import frames_of
from ottla.broker.waiting.next_turn import NextTurn
from ottla.errors import RequestTimedOut

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Added: TypeAlias = list[tuple[ProduceResults, list[Uncommitted]]]
"""For each request what its answer says, and what of it must still be committed."""


class HeldRun(HeldAnswers):
    """The answers of a run, until the last of its partitions is committed."""

    __slots__ = ("_answers", "_left", "_next_turn", "_uncommitted", "_version")

    def __init__(
        self,
        content: bytes,
        request_bytes: list[int],
        answers: list[ProduceResults],
        uncommitted: list[Uncommitted],
        version: int,
        next_turn: NextTurn,
    ) -> None:
        super().__init__(content, request_bytes)
        self._answers = answers
        self._uncommitted = uncommitted
        self._version = version
        self._next_turn = next_turn
        self._left = 0

    def wait_for(self, broker: Broker, waiting: list[Uncommitted], deadline_ms: float) -> None:
        self._left = len(waiting)
        for each in waiting:
            broker.progress.commits.hold(each, deadline_ms, _HeldPart(self, each))

    def resolved(self) -> None:
        """One of its partitions is over."""
        self._left -= 1
        if not self._left:
            self._next_turn.add(self._let_go)

    def count_failure(self, broker: Broker, count: int) -> None:
        for each in self._uncommitted:
            if each.outcome.error is not None:
                count_unacknowledged(broker, each.partition.name.topic, each.outcome.error)

    def _let_go(self) -> None:
        if any(each.outcome.error is not None for each in self._uncommitted):
            self.content = write_run(self._version, frames_of(self.content), self._answers)
        if self.counted is not None:
            self.counted()
        self.leave(self.content)


class _HeldPart:
    """What one request wrote to one partition; resolved as a future would be."""

    __slots__ = ("_held", "_is_done", "_uncommitted")

    def __init__(self, held: HeldRun, uncommitted: Uncommitted) -> None:
        self._held = held
        self._uncommitted = uncommitted
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, is_over: bool) -> None:
        """It is committed or cannot be any more; False when the time is over."""
        self._is_done = True
        if not is_over:
            self._uncommitted.outcome.refuse(RequestTimedOut())
        self._held.resolved()


def hold_run(broker: Broker, frames: list[memoryview], added: Added, version: int, timeout_ms: int) -> HeldRun | None:
    """The answers to these requests, in line for the commits of what they say was appended; None when that is over."""
    uncommitted = [each for _, of_one in added for each in of_one]
    waiting = [each for each in uncommitted if not each.is_over()]
    if not waiting:
        for each in uncommitted:
            if each.outcome.error is not None:
                count_unacknowledged(broker, each.partition.name.topic, each.outcome.error)
        return None
    answers = [each for each, _ in added]
    content, sizes = write_run(version, frames, answers), [len(frame) for frame in frames]
    held = HeldRun(content, sizes, answers, uncommitted, version, broker.progress.next_turn)
    held.wait_for(broker, waiting, broker.clock.monotonic_ms() + timeout_ms)
    return held
