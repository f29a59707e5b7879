"""Idempotent producers that send unique numbers to drawn partitions, several at once, up to IN_FLIGHT at a time.

Keys are drawn so that some are written all the time and others once in a run: only the latter would be missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import OttlaError
from ottla.simulation.history import Operation
from ottla.simulation.workloads.base import Workload, close_quietly, end_send, hear, name_of
from ottla.values import TopicPartition

IN_FLIGHT: Final = 16
KEYS: Final = 40


class Numbers(Workload):
    """See the module. `pause_s` is between two sends on average; with `has_keys` every record has one of few keys."""

    def __init__(
        self, *arguments: Any, partitions: Sequence[TopicPartition], pause_s: float, has_keys: bool = False
    ) -> None:
        super().__init__(*arguments)
        self._partitions = partitions
        self._pause_s = pause_s
        self._has_keys = has_keys

    async def run(self) -> None:
        room = asyncio.Semaphore(IN_FLIGHT)
        producer = self.producer()
        while not self.is_stopping:
            await self.pause(self._pause_s)
            for _ in range(self.random.randint(1, self.tempo.burst)):
                await room.acquire()
                await self._send(producer, room)
        for _ in range(IN_FLIGHT):
            await room.acquire()
        await close_quietly(producer)

    async def _send(self, producer: AsyncProducer, room: asyncio.Semaphore) -> None:
        value, partition = self.numbers.next(), self.random.choice(self._partitions)
        facts: dict[str, Any] = {"key": f"k{int(KEYS * self.random.random() ** 6)}"} if self._has_keys else {}
        sending = self.history.invoke(self.name, "send", partition=name_of(partition), value=value, **facts)
        key = facts["key"].encode() if facts else None
        try:
            future = await producer.send(partition.topic, b"%d" % value, key=key, partition=partition.partition)
        except OttlaError as error:
            end_send(sending, error)
            room.release()
            return
        asyncio.get_running_loop().create_task(_hear(future, sending, room))


async def _hear(future: Any, sending: Operation, room: asyncio.Semaphore) -> None:
    try:
        await hear(future, sending)
    finally:
        room.release()
