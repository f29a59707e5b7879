"""The question that a follower asks all the time: a fetch of a session that goes on, as flat values and no message.

1. It is an Exchange (net/connection.py): it writes its own frame and reads its own answer (fetch/frames.py), so it goes
   straight through a connection that has nothing to decide.
2. On any other connection `message()` is the same question as an ordinary request.
3. The answer is a SimpleFetched, or a FetchResponse when it is not simple.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.broker.fetch.choice import scan_fetched, write_asked
from ottla.broker.fetch.frames import SimpleAsked, SimpleFetched, Terms
from ottla.broker.fetch.sessions import FetchPosition
from ottla.protocol.api import APIS
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.schema import Buffer

FETCH: Final = APIS[1]


class CopyQuestion:
    """`topics` has by id the partitions to name, each with its Position (fetch_plan.py)."""

    __slots__ = ("_answer", "_broker_epoch", "_session_epoch", "_session_id", "_terms", "_topics", "version")

    api = FETCH

    def __init__(
        self,
        version: int,
        terms: Terms,
        broker_epoch: int,
        session_id: int,
        session_epoch: int,
        topics: dict[bytes, list[tuple[int, tuple[bytes, int, int, int, int]]]],
    ) -> None:
        self.version = version  # the newest that leaders are sure to speak
        self._terms = terms
        self._broker_epoch = broker_epoch
        self._session_id = session_id
        self._session_epoch = session_epoch
        self._topics = topics
        self._answer: asyncio.Future[SimpleFetched | FetchResponse] | None = None

    def message(self) -> FetchRequest:
        limit_bytes = self._terms.partition_max_bytes
        rows = [
            (topic_id, index, FetchPosition(at[2], limit_bytes, at[1], at[3], at[4]))
            for topic_id, partitions in self._topics.items()
            for index, at in partitions
        ]
        limits = self._terms.max_wait_ms, self._terms.min_bytes, self._terms.max_bytes
        who = self._terms.replica_id, self._broker_epoch
        return SimpleAsked(*who, *limits, 0, self._session_id, self._session_epoch, rows).message(self.version)

    # --- as an exchange -----------------------------------------------------------------------------------------------

    def frame(self, correlation_id: int, client_id: str | None) -> list[Buffer]:
        session = self._session_id, self._session_epoch
        return [
            write_asked(
                self.version, correlation_id, client_id, self._terms, self._broker_epoch, *session, self._topics
            )
        ]

    def read(self, frame: Buffer) -> SimpleFetched | None:
        return scan_fetched(self.version, frame)

    def answer(self) -> asyncio.Future[SimpleFetched | FetchResponse]:
        """What it waits for; made before it is sent."""
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def done(self) -> bool:
        return self._answer is None or self._answer.done()

    def set_result(self, response: SimpleFetched | FetchResponse) -> None:
        assert self._answer is not None, "somebody waits for it"
        self._answer.set_result(response)

    def set_exception(self, error: Exception) -> None:
        assert self._answer is not None, "somebody waits for it"
        self._answer.set_exception(error)
        self._answer.exception()  # who waits may be cancelled in this turn; the loop must not call it forgotten
