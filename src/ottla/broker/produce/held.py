"""The answers of simple requests, held back until their partition has committed what they wrote.

    held = HeldProduce(content, sizes, uncommitted, topic, version, broker.progress.next_turn)
    broker.progress.commits.hold(uncommitted, deadline_ms, held)      # resolved as a future would be

1. Requests that came together were appended by one write, so one commit is for all of them: they have one place in the
   line of their partition, at the offset behind the last.
2. What was written says that they were appended. If that is not to be acknowledged after all (the time is over, the
   partition is led elsewhere, its disk failed), the answers are written anew with the error, for all of them.
3. They leave in the next turn of the loop, with all others that were resolved in this one (waiting/next_turn.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.held import HeldAnswers
from ottla.broker.produce.choice import write_run
from ottla.broker.produce.committed import Uncommitted, count_unacknowledged
from ottla.broker.produce.frames import ProduceResult, Topic
from ottla.broker.waiting.next_turn import NextTurn
from ottla.errors import RequestTimedOut
from ottla.net.framing import SIZE

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


def frames_of(content: bytes) -> list[memoryview]:
    """What `write_run` needs of the requests to which these are the answers: their numbers. An answer has its own where
    a request has it, when the size of the answer counts as its first four bytes."""
    frames, position = [], 0
    while position < len(content):
        end = position + SIZE.size + SIZE.unpack_from(content, position)[0]
        frames.append(memoryview(content)[position:end])
        position = end
    return frames
