"""What all workloads have: a name, a machine with a process, the run's history, and the doors for their clients.

1. `stop` lets a workload come to its end by itself. `crash` is kill -9 of its process; it begins anew after a while,
   on the same machine, with what it must remember (which numbers it has used) and nothing else.
2. A partition is named `topic-number` in the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.errors import InvalidRecord, InvalidTimestamp, OttlaError
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import History, Operation
from ottla.simulation.machine import Machine
from ottla.values import TopicPartition

PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "linger_ms": 0,
    "delivery_timeout_ms": 60_000,
    "request_timeout_ms": 5_000,
}
CONSUMER: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 5_000,
    "fetch_max_wait_ms": 2_000,  # who waits for nothing costs steps
    "isolation_level": "read_committed",
}
CALL_S: Final = 60.0
CLOSE_S: Final = 5.0
ERRORS: Final = (OttlaError, TimeoutError)


class Numbering:
    """Unique numbers for all sends of a run."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


class Workload:
    """See the module."""

    def __init__(self, cluster: SimulatedCluster, history: History, name: str, numbers: Numbering) -> None:
        self.cluster = cluster
        self.history = history
        self.name = name
        self.numbers = numbers
        self.machine: Machine = cluster.client_machine()
        self.random = self.machine.random
        self.is_stopping = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        process = self.machine.boot(self.name)
        self.task = self.cluster.loop.start(process, self.run(), self.name)

    async def run(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        """Let it come to an end by itself."""
        self.is_stopping = True
        if self.task is None:
            self.start()
        assert self.task is not None, "it was started"
        await asyncio.wait((self.task,))
        self.task.result()

    def crash(self) -> None:
        """kill -9 of its process; what it was doing has no end in the history."""
        self.machine.kill()
        self.task = None

    def restart(self) -> None:
        if self.task is None and not self.is_stopping:
            self.start()

    def doors(self) -> dict[str, Any]:
        """What every client is made with."""
        world = self.machine.world()
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": self.name.replace(" ", "-"),
            "transport": world.transport,
            "clock": world.clock,
            "random": world.random,
        }

    def consumer(self, *topics: str, **settings: Any) -> AsyncConsumer:
        return AsyncConsumer(*topics, **self.doors(), **{**CONSUMER, **settings})

    def admin(self) -> AsyncAdmin:
        doors = self.doors()
        return AsyncAdmin(**doors, random_bytes=doors["random"].randbytes)

    async def pause(self, average_s: float) -> None:
        await asyncio.sleep(average_s * 2 * self.random.random())


def name_of(partition: TopicPartition) -> str:
    """How the history calls a partition."""
    return f"{partition.topic}-{partition.partition}"


def partitions_of(topics: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, count in topics for number in range(count)]


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def end_send(sending: Operation, error: OttlaError) -> None:
    """Refused for certain, or nobody knows. A broker whose clock is hours away refuses what clients send now."""
    if isinstance(error, InvalidTimestamp | InvalidRecord):
        sending.fail(describe(error))
    else:
        sending.info(describe(error))


async def hear(future: Any, sending: Operation) -> None:
    """Write down what became of a send."""
    try:
        sending.ok(offset=(await future).offset)
    except OttlaError as error:
        end_send(sending, error)


async def poll(
    consumer: AsyncConsumer, history: History, client: str, action: str = "poll", **facts: Any
) -> Sequence[Any]:
    """One poll, written down when it gave something or failed."""
    try:
        records = await consumer.poll(1.0)
    except OttlaError as error:
        history.invoke(client, action).info(describe(error))
        await asyncio.sleep(0.1)
        return []
    if records:
        plain = [[f"{each.topic}-{each.partition}", each.offset, int(each.value or b"-1")] for each in records]
        history.invoke(client, action).ok(records=plain, **facts)
    return records


async def close_quietly(client: Any) -> None:
    """A client that could not say goodbye in time is gone all the same."""
    try:
        await client.close(CLOSE_S)
    except ERRORS:
        pass
