"""The loop that follows one leader over one connection: ask, wait, apply the answer, ask again.

All decisions are follower.py's; here they meet the network and time. One question is under way at a time: a fetch waits
at the leader until there is something, so the next one leaves as soon as the last has brought it. What must be on our
disk before the leader may count us (durability `durable`, and where logs start) is synced before the next question says
that we have it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.broker.replication.copy_question import CopyQuestion
from ottla.broker.replication.fetch_plan import FetchSettings
from ottla.broker.replication.follower import Applied, Follower, Question, Response
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

log = logging.getLogger(__name__)


class Send(Protocol):
    """inter_broker.InterBroker.send"""

    def __call__(
        self, broker_id: int, request: Message, *, timeout_ms: float, at_most: int | None = None
    ) -> Awaitable[Message]: ...


class Start(Protocol):
    """inter_broker.InterBroker.start"""

    def __call__(self, broker_id: int, exchange: CopyQuestion, *, timeout_ms: float) -> bool: ...


class FetchLoop:
    """`applied` is called with what every answer brought, and waits for what must be synced."""

    def __init__(
        self,
        leader_id: int,
        follower: Follower,
        send: Send,
        start: Start,
        *,
        settings: FetchSettings,
        timeout_ms: float,
        clock: Clock,
        is_throttled: Callable[[TopicPartition], bool],
        applied: Callable[[Applied], Awaitable[None]],
    ) -> None:
        self.leader_id = leader_id
        self.follower = follower
        self._send = send
        self._start = start
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._is_throttled = is_throttled
        self._applied = applied
        self._wakes = asyncio.Event()
        self._is_reached = True
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"follow broker {leader_id}")

    def wake(self) -> None:
        """There is something new to follow."""
        self._wakes.set()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._wakes.clear()
            question = self.follower.next_question(self._clock.monotonic_ms(), self._is_throttled)
            if question is None:
                await self._rest()
                continue
            try:
                await self._ask(question)
            except OttlaError as error:
                self._not_reached(error)
            except Exception:
                log.exception("following broker %d failed; it is tried again", self.leader_id)
                self.follower.failed(self._clock.monotonic_ms())

    async def _ask(self, question: Question) -> None:
        response = await (self._ask_simply(question) if isinstance(question, CopyQuestion) else self._ask_by(question))
        self._is_reached = True
        await self._applied(self.follower.apply(response, self._clock.monotonic_ms()))

    def _ask_simply(self, question: CopyQuestion) -> Awaitable[Response]:
        """Straight through the connection, where that has nothing to decide."""
        answer = question.answer()
        if self._start(self.leader_id, question, timeout_ms=self._timeout_ms):
            return answer
        return self._ask_by(question.message())

    async def _ask_by(self, message: OffsetForLeaderEpochRequest | ListOffsetsRequest | FetchRequest) -> Response:
        at_most = self._settings.version if isinstance(message, FetchRequest) else None
        response = await self._send(self.leader_id, message, timeout_ms=self._timeout_ms, at_most=at_most)
        assert isinstance(response, FetchResponse | ListOffsetsResponse | OffsetForLeaderEpochResponse)
        return response

    def _not_reached(self, error: OttlaError) -> None:
        if self._is_reached:
            log.warning("broker %d cannot be followed: %s", self.leader_id, error)
        self._is_reached = False
        self.follower.failed(self._clock.monotonic_ms())

    async def _rest(self) -> None:
        """Until something is new, or has rested; a throttled partition is checked again after the back-off."""
        now_ms = self._clock.monotonic_ms()
        due_ms = self.follower.next_due_ms(now_ms)
        wait_ms = self._settings.backoff_ms if due_ms is None else due_ms - now_ms
        waker = asyncio.ensure_future(self._wakes.wait())
        timer = asyncio.ensure_future(self._clock.sleep(max(wait_ms, 1)))
        try:
            await asyncio.wait((waker, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waker.cancel()
            timer.cancel()
