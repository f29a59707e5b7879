"""A topic is made, written, grown, read and deleted, and made again under the same name.

1. Each life of the topic has partitions of its own in the history: `churn.3-0` is partition 0 of its third life.
2. What was acknowledged must be read back in the same life. Until every broker has heard of a new life a reader may
   still see the one before it; its values are not counted.
3. A life that could not be read back before it was deleted is marked `gone`: nothing of it is owed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.errors import OttlaError, TopicAlreadyExists, UnknownTopicOrPartition
from ottla.simulation.workloads.base import ERRORS, POLL_S, Workload, close_quietly, describe, end_send, partitions_of

TOPIC: Final = "churn"
SENDS: Final = 5
READ_S: Final = 20.0


class Churn(Workload):
    """See the module."""

    def __init__(self, *arguments: Any, copies: int) -> None:
        super().__init__(*arguments)
        self._copies = copies
        self._life = 0
        self._values: set[int] = set()  # of this life

    async def run(self) -> None:
        async with self.admin() as admin:
            while not self.is_stopping:
                await self._one_life(admin)

    def _name(self, partition: int) -> str:
        return f"{TOPIC}.{self._life}-{partition}"

    async def _one_life(self, admin: AsyncAdmin) -> None:
        self._life += 1
        self._values.clear()
        count = self.random.randint(1, 2)
        await self._remove(admin)
        await self._create(admin, count)
        await self._write(count)
        if self.random.random() < 0.5:
            await self._do(admin.create_partitions({TOPIC: count + 1}, timeout=self.paced_s(30.0)), "create-partitions")
        if not await self._read_back(count):
            self.history.note(self.name, "topic", partitions=[self._name(each) for each in range(count)], policy="gone")
        await self.pause(self.paced_s(1.0))

    async def _remove(self, admin: AsyncAdmin) -> None:
        """Until it is gone for certain."""
        while True:
            try:
                await admin.delete_topics([TOPIC], timeout=self.paced_s(30.0))
            except UnknownTopicOrPartition:
                return
            except ERRORS:
                pass
            await self.pause(self.paced_s(0.5))

    async def _create(self, admin: AsyncAdmin, count: int) -> None:
        """Until it is there: it is refused while fewer brokers live than it has copies."""
        topic = NewTopic(TOPIC, count, self._copies)
        while not await self._do(admin.create_topics([topic], timeout=self.paced_s(30.0)), "create-topic"):
            await self.pause(self.paced_s(0.5))

    async def _do(self, call: Any, action: str) -> bool:
        """Whether it was done."""
        doing = self.history.invoke(self.name, action, topic=TOPIC, life=self._life)
        try:
            await call
        except TopicAlreadyExists:
            pass  # the answer to the first try was lost
        except ERRORS as error:
            doing.info(describe(error))
            return False
        doing.ok()
        return True

    async def _write(self, count: int) -> None:
        limit_ms = int(self.paced_s(10_000))
        producer = self.producer(max_block_ms=limit_ms, delivery_timeout_ms=limit_ms)
        for _ in range(SENDS):
            value, partition = self.numbers.next(), self.random.randrange(count)
            self._values.add(value)
            sending = self.history.invoke(self.name, "send", partition=self._name(partition), value=value)
            try:
                sent = await (await producer.send(TOPIC, b"%d" % value, partition=partition))
                sending.ok(offset=sent.offset)
            except OttlaError as error:
                end_send(sending, error)
        await close_quietly(producer)

    async def _read_back(self, count: int) -> bool:
        """Whether everything could be read to its end in time."""
        consumer = self.consumer()
        names = partitions_of([(TOPIC, count)])
        try:
            async with asyncio.timeout(self.paced_s(READ_S)):
                self.history.note(self.name, "assign")
                await consumer.assign(names)
                ends = await consumer.end_offsets(names, timeout=self.paced_s(READ_S))
                while any([await consumer.position(each, timeout=self.paced_s(READ_S)) < ends[each] for each in names]):
                    await self._poll(consumer)
            return True
        except ERRORS:
            return False
        finally:
            await close_quietly(consumer)

    async def _poll(self, consumer: AsyncConsumer) -> None:
        records = [
            [self._name(each.partition), each.offset, int(each.value or b"-1")]
            for each in await consumer.poll(self.paced_s(POLL_S))
        ]
        if ours := [each for each in records if each[2] in self._values]:
            self.history.invoke(self.name, "poll").ok(records=ours)
