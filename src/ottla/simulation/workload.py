"""Clients at work: real ones, on machines of their own, that write down what they ask and what they hear.

1. `Numbers`: an idempotent producer that sends unique numbers, several at a time, to drawn partitions.
2. `Follower`: a consumer with partitions assigned, from the beginning on, for as long as the run takes.
3. `Member`: a member of a group that commits what it read, and asks what is committed.
4. `read_to_the_end`: a fresh consumer, after everything is healed, that reads everything.

An error that a client raises is written down as what it means: `info`, because with a lost answer nobody knows.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import OttlaError
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import History, Operation
from ottla.simulation.machine import Machine
from ottla.values import TopicPartition

TOPIC: Final = "t"
IN_FLIGHT: Final = 5
PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "linger_ms": 0,
    "delivery_timeout_ms": 60_000,
    "request_timeout_ms": 5_000,
}
CONSUMER: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 5_000,
    "fetch_max_wait_ms": 500,
}


class Workload:
    """What all of them have: a name, a machine with a process, and the run's history."""

    def __init__(self, cluster: SimulatedCluster, history: History, name: str, partitions: int) -> None:
        self.cluster = cluster
        self.history = history
        self.name = name
        self.partitions = partitions
        self.machine: Machine = cluster.client_machine()
        self.random = self.machine.random
        self.is_stopping = False
        process = self.machine.boot(name)
        self.task: asyncio.Task[None] = cluster.loop.start(process, self._run(), name)

    async def stop(self) -> None:
        """Let it come to an end by itself."""
        self.is_stopping = True
        await asyncio.wait((self.task,))
        self.task.result()

    @property
    def _doors(self) -> dict[str, Any]:
        world = self.machine.world()
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": self.name.replace(" ", "-"),
            "transport": world.transport,
            "clock": world.clock,
            "random": world.random,
        }

    async def _run(self) -> None:
        raise NotImplementedError


class Numbers(Workload):
    """See the module. `first` to `first + count` are its numbers, `pause_s` is between two sends on average."""

    def __init__(
        self, cluster: SimulatedCluster, history: History, name: str, partitions: int, *, first: int, pause_s: float
    ) -> None:
        self._number = first
        self._pause_s = pause_s
        super().__init__(cluster, history, name, partitions)

    async def _run(self) -> None:
        room = asyncio.Semaphore(IN_FLIGHT)
        producer = AsyncProducer(**self._doors, **PRODUCER)
        while not self.is_stopping:
            await asyncio.sleep(self._pause_s * 2 * self.random.random())
            await room.acquire()
            await self._send(producer, room)
        for _ in range(IN_FLIGHT):
            await room.acquire()
        await producer.close(10.0)

    async def _send(self, producer: AsyncProducer, room: asyncio.Semaphore) -> None:
        value, partition = self._number, self.random.randrange(self.partitions)
        self._number += 1
        sending = self.history.invoke(self.name, "send", partition=partition, value=value)
        try:
            future = await producer.send(TOPIC, b"%d" % value, partition=partition)
        except OttlaError as error:
            sending.info(f"{type(error).__name__}: {error}")
            room.release()
            return
        asyncio.get_running_loop().create_task(_hear(future, sending, room))


async def _hear(future: Any, sending: Operation, room: asyncio.Semaphore) -> None:
    try:
        sending.ok(offset=(await future).offset)
    except OttlaError as error:
        sending.info(f"{type(error).__name__}: {error}")
    finally:
        room.release()


class Follower(Workload):
    """See the module."""

    async def _run(self) -> None:
        names = [TopicPartition(TOPIC, number) for number in range(self.partitions)]
        consumer = AsyncConsumer(**self._doors, **CONSUMER)
        self.history.note(self.name, "assign")
        await consumer.assign(names)
        while not self.is_stopping:
            await _poll(consumer, self.history, self.name, "poll")
        await consumer.close(5.0)


class Member(Workload):
    """See the module."""

    group: Final = "g"

    async def _run(self) -> None:
        consumer = AsyncConsumer(TOPIC, **self._doors, **CONSUMER, group_id=self.group, enable_auto_commit=False)
        while not self.is_stopping:
            # Offsets may come again after a rebalance, so its polls are not held against their order.
            self.history.note(self.name, "assign")
            records = await _poll(consumer, self.history, self.name, "poll")
            if records:
                await self._commit(consumer, {each.partition: each.offset + 1 for each in records})
        await consumer.close(5.0)

    async def _commit(self, consumer: AsyncConsumer, offsets: dict[int, int]) -> None:
        for partition, offset in sorted(offsets.items()):
            name = TopicPartition(TOPIC, partition)
            facts = {"group": self.group, "partition": partition}
            committing = self.history.invoke(self.name, "commit", **facts, offset=offset)
            try:
                await consumer.commit({name: offset}, timeout=10.0)
                committing.ok()
                asking = self.history.invoke(self.name, "committed", **facts)
                found = (await consumer.committed(name, timeout=10.0))[name]
                asking.ok(offset=-1 if found is None else found.offset)
            except (OttlaError, TimeoutError) as error:
                committing.info(f"{type(error).__name__}")


async def _poll(consumer: AsyncConsumer, history: History, name: str, action: str) -> list[Any]:
    try:
        records = await consumer.poll(1.0)
    except OttlaError as error:
        history.invoke(name, action).info(f"{type(error).__name__}: {error}")
        await asyncio.sleep(0.1)
        return []
    if records:
        history.invoke(name, action).ok(
            records=[[each.partition, each.offset, int(each.value or b"-1")] for each in records]
        )
    return records


class FinalRead(Workload):
    """See the module: reads from the beginning to where the ends are now."""

    async def _run(self) -> None:
        names = [TopicPartition(TOPIC, number) for number in range(self.partitions)]
        reading = self.history.invoke(self.name, "final-read")
        consumer = AsyncConsumer(**self._doors, **CONSUMER)
        self.history.note(self.name, "assign")
        await consumer.assign(names)
        ends = await consumer.end_offsets(names, timeout=60.0)
        await consumer.seek_to_beginning(*names)
        while any([await consumer.position(name, timeout=60.0) < ends[name] for name in names]):
            await _poll(consumer, self.history, self.name, "final-poll")
        reading.ok()
        await consumer.close(5.0)
