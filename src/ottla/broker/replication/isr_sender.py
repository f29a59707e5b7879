"""Sends proposals of in-sync sets to the controller, one request at a time, and reports its decisions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.broker.replication.in_sync import Proposal
from ottla.broker.replication.isr_requests import RETRY_MS, IsrDecision, IsrRequests
from ottla.clock import Clock
from ottla.errors import OttlaError
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from ottla.protocol.schema import Message
from ottla.values import TopicPartition

log = logging.getLogger(__name__)


class IsrSender:
    """`ask_controller` finds the controller at every request, so that a new one is asked after the old one."""

    def __init__(
        self,
        broker_id: int,
        ask_controller: Callable[[AlterPartitionRequest], Awaitable[Message]],
        *,
        broker_epoch: Callable[[], int],
        clock: Clock,
        decided: Callable[[IsrDecision], None],
    ) -> None:
        self._requests = IsrRequests(broker_id)
        self._ask_controller = ask_controller
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._decided = decided
        self._task: asyncio.Task[None] | None = None
        self._is_reached = True

    def submit(self, name: TopicPartition, topic_id: bytes, proposal: Proposal) -> bool:
        """False when an earlier proposal for the partition is still on its way."""
        accepted = self._requests.submit(name, topic_id, proposal)
        if accepted and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="in-sync sets")
        return accepted

    def forget(self, name: TopicPartition, topic_id: bytes) -> None:
        self._requests.forget(name, topic_id)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while (request := self._requests.request(self._broker_epoch())) is not None:
                if not await self._ask(request):
                    await self._clock.sleep(RETRY_MS)
        finally:
            self._task = None

    async def _ask(self, request: AlterPartitionRequest) -> bool:
        """Whether all of it was answered for good."""
        asked = sum(len(topic.partitions) for topic in request.topics)
        try:
            response = await self._ask_controller(request)
        except OttlaError as error:
            if self._is_reached:
                log.warning("the controller cannot be asked about in-sync sets, and is asked again: %s", error)
            self._is_reached = False
            self._requests.failed()
            return False
        self._is_reached = True
        assert isinstance(response, AlterPartitionResponse)
        outcomes = self._requests.answered(response)
        for outcome in outcomes:
            self._decided(outcome)
        return len(outcomes) == asked
