"""What all workloads have: a name, a machine with a process, the run's history, and the doors for their clients.

1. `stop` lets a workload come to its end by itself; a `pause` is over then. `crash` is kill -9 of its process; it
   begins anew after a while, on the same machine, with what it must remember (which numbers it has used) and nothing
   else.
2. A partition is named `topic-number` in the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import InvalidRecord, InvalidTimestamp, OttlaError
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import History, Operation
from ottla.simulation.machine import Machine
from ottla.simulation.workloads.tempo import Tempo
from ottla.values import TopicPartition

DEFAULT_TEMPO: Final = Tempo()
CALL_S: Final = 60.0
CLOSE_S: Final = 5.0
POLL_S: Final = 1.0
LAST_PAUSE_S: Final = 0.5  # the longest between two tries of who should come to an end
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

    def __init__(
        self,
        cluster: SimulatedCluster,
        history: History,
        name: str,
        numbers: Numbering,
        tempo: Tempo = DEFAULT_TEMPO,
    ) -> None:
        self.tempo = tempo
        self.cluster = cluster
        self.history = history
        self.name = name
        self.numbers = numbers
        self.machine: Machine = cluster.client_machine()
        self.random = self.machine.random
        self.is_stopping = False
        self.is_amid = False
        self.task: asyncio.Task[None] | None = None
        self._pausing: asyncio.Future[None] | None = None

    def start(self) -> None:
        self.is_amid = False
        process = self.machine.boot(self.name)
        self.task = self.cluster.loop.start(process, self.run(), self.name)

    async def run(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        """Let it come to an end by itself."""
        self.is_stopping = True
        if self._pausing is not None:
            _end_pause(self._pausing)
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

    @contextmanager
    def amid(self) -> Iterator[None]:
        """It has begun something that others may end or undo when it is silent: a fault may be aimed at it now."""
        self.is_amid = True
        try:
            yield
        finally:
            self.is_amid = False

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
        return AsyncConsumer(*topics, **self.doors(), **{**self.tempo.consumer(), **settings})

    def producer(self, **settings: Any) -> AsyncProducer:
        return AsyncProducer(**self.doors(), **{**self.tempo.producer(), **settings})

    def admin(self) -> AsyncAdmin:
        doors = self.doors()
        return AsyncAdmin(**doors, random_bytes=doors["random"].randbytes)

    def paced_s(self, duration_s: float) -> float:
        """How long that is at the pace of this run."""
        return duration_s * self.tempo.pace

    async def pause(self, average_s: float) -> None:
        """Do nothing for a drawn time, or until `stop`: who waits for the end of a run costs steps of all others."""
        duration_s = average_s * 2 * self.random.random()
        if self.is_stopping:
            duration_s = min(duration_s, self.paced_s(LAST_PAUSE_S))
        loop = self.cluster.loop
        pausing = self._pausing = loop.create_future()
        timer = loop.call_later(duration_s, _end_pause, pausing)
        try:
            await pausing
        finally:
            timer.cancel()
            self._pausing = None


def _end_pause(pausing: asyncio.Future[None]) -> None:
    if not pausing.done():
        pausing.set_result(None)


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


async def poll(consumer: AsyncConsumer, load: Workload, action: str = "poll", **facts: Any) -> Sequence[Any]:
    """One poll, written down when it gave something or failed."""
    try:
        records = await consumer.poll(load.paced_s(POLL_S))
    except OttlaError as error:
        load.history.invoke(load.name, action).info(describe(error))
        await asyncio.sleep(load.paced_s(0.1))
        return []
    if records:
        plain = [[f"{each.topic}-{each.partition}", each.offset, int(each.value or b"-1")] for each in records]
        load.history.invoke(load.name, action).ok(records=plain, **facts)
    return records


async def close_quietly(client: Any) -> None:
    """A client that could not say goodbye in time is gone all the same."""
    try:
        await client.close(CLOSE_S)
    except ERRORS:
        pass
