"""The answers to produce requests of one connection that came together: written when the last of their batches is
committed or refused.

    answers = Answers(results, next_turn)              # of writes (replication/writes.py) that have it as `requests`
    answers.begun(1); ...; answers.all_begun()         # so many writes will end
    answers.content()                                  # where all have ended: whole frames
    answers.leave_by(connection, places)               # else they leave when the last one ends
    await answers.over()                               # or a handler goes on then

They leave in the next turn of the loop, with all others that ended in this one (waiting/next_turn.py): whoever commits
what a hundred requests wait for must not answer them himself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.produce.choice import write_run
from ottla.broker.produce.frames import HEADER_FIXED_BYTES, ProduceResults
from ottla.broker.requests.running import resolve
from ottla.broker.waiting.next_turn import NextTurn

if TYPE_CHECKING:
    from ottla.broker.network.processor import AnswerTimes, Connection
    from ottla.clock import Clock


class Answers:
    """See above; `results` say for each request, by topic, what became of its batches."""

    __slots__ = (
        "_clock",
        "_connection",
        "_future",
        "_heads",
        "_left",
        "_next_turn",
        "_places",
        "_started_ms",
        "_times",
        "_version",
        "_waits_since_ms",
        "request_bytes",
        "results",
    )

    def __init__(self, results: list[ProduceResults], next_turn: NextTurn) -> None:
        self.results = results
        self._next_turn = next_turn
        self._left = 1  # those who begin the writes have not ended either
        self._connection: Connection | None = None
        self._future: asyncio.Future[None] | None = None

    # -- what is waited for --------------------------------------------------------------------------------------------

    def begun(self, count: int) -> None:
        """So many writes will end."""
        self._left += count

    def all_begun(self) -> None:
        """No write is begun any more."""
        self._left -= 1

    @property
    def is_over(self) -> bool:
        return not self._left

    def write_ended(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._future is not None:
            resolve(self._future, None)
        elif self._connection is not None:
            self._next_turn.add(self._leave)

    async def over(self) -> list[ProduceResults]:
        """The results, when they do not change any more."""
        self._future = asyncio.get_running_loop().create_future()
        await self._future
        return self.results

    # -- frames --------------------------------------------------------------------------------------------------------

    def of_frames(self, version: int, frames: list[memoryview]) -> None:
        """They are the answers to these requests."""
        self._version = version
        # Not the frames: they have the records, and their memory is wanted for what comes next.
        self._heads = [bytes(frame[:HEADER_FIXED_BYTES]) for frame in frames]
        self.request_bytes = list(map(len, frames))

    def content(self) -> bytes:
        """Whole frames."""
        return write_run(self._version, self._heads, self.results)

    def timed(self, clock: Clock, times: AnswerTimes, started_ms: float) -> None:
        """These requests began then, and wait from now on."""
        self._clock, self._times, self._started_ms = clock, times, started_ms
        self._waits_since_ms = clock.monotonic_ms()

    def leave_by(self, connection: Connection, places: list[int]) -> None:
        """The connection keeps these places for them."""
        self._connection, self._places = connection, places

    def _leave(self) -> None:
        connection = self._connection
        assert connection is not None, "who has no places does not leave"
        self._times.waited(self._started_ms, self._waits_since_ms, self._clock.monotonic_ms(), len(self.results))
        connection.leave(self._places, self.content())
