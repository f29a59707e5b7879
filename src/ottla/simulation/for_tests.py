"""A misbehaving cluster for somebody's own tests: brokers, clients and faults in one process, in virtual time.

    cluster = FaultyCluster(seed=7, faults=("kill", "isolate"), seconds=30)

    async def scenario(cluster):
        await cluster.create_topic("orders", partitions=3)
        async with cluster.producer() as producer:
            await producer.send_and_wait("orders", b"one")
        await cluster.healed()

    cluster.run(scenario)

1. The scenario runs on a loop whose clock jumps: a minute of sleep costs nothing. Threads and sockets are not there, so
   the clients are the asyncio ones that `producer`, `consumer` and `admin` make.
2. `faults` are kinds of faults (fault.py), drawn from the seed for `seconds` of virtual time; or Fault values.
3. The same seed gives the same run. What the scenario raises has the line that repeats it as a note.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeVar

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import OttlaError, TopicAlreadyExists
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.fault import KINDS, Fault, draw_faults
from ottla.simulation.faults import Faults
from ottla.simulation.history import History
from ottla.simulation.loop import new_loop
from ottla.simulation.machine import Machine
from ottla.simulation.process import Process

T = TypeVar("T")

SECONDS: Final = 30.0
PAUSE_S: Final = 3.0
LIMIT_S: Final = 3_600.0
SETTINGS: Final[Mapping[str, object]] = {"ottla.durability": "durable", "auto.create.topics.enable": "true"}


class FaultyCluster:
    """See the module; for one run."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        faults: Sequence[str | Fault] = (),
        seconds: float = SECONDS,
        settings: Mapping[str, object] | None = None,
        repeat: str = "",
    ) -> None:
        self.seed = seed
        self.repeat = repeat or f"FaultyCluster(seed={seed})"
        self.faults = _drawn(faults, seed, brokers, seconds)
        self.loop = new_loop(Random(f"loop {seed}"))
        self._cluster = SimulatedCluster(
            self.loop, Random(f"cluster {seed}"), brokers=brokers, settings={**SETTINGS, **(settings or {})}
        )
        self._machine: Machine = self._cluster.client_machine()
        self._topics: dict[str, int] = {}
        self._faults_over = asyncio.Event()
        self._is_used = False
        self._clients = 0

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def timeline(self) -> str:
        """What happened to the brokers, a line for each moment."""
        return self._cluster.timeline.text()

    # --- running ---

    def run(self, scenario: Callable[[FaultyCluster], Awaitable[T]]) -> T:
        """Run it to its end while faults come and go; what it returns. Raises what it raises."""
        if self._is_used:
            raise RuntimeError("a cluster is for one run; ask kafka_cluster for another one")
        self._is_used = True
        was_collecting = gc.isenabled()
        gc.disable()  # what it collects, and when, is not decided by the seed
        try:
            return self.loop.run(self._main(scenario), limit_s=LIMIT_S)
        except BaseException as error:
            error.add_note(f"seed {self.seed}; repeat with: {self.repeat}")
            raise
        finally:
            self.loop.close()
            if was_collecting:
                gc.enable()

    async def _main(self, scenario: Callable[[FaultyCluster], Awaitable[T]]) -> T:
        self._cluster.start()
        await self._cluster.ready()
        running = asyncio.ensure_future(self._let_faults_happen())
        process = self._machine.boot("test")
        try:
            return await self.loop.start(process, _awaited(scenario(self)), "scenario")
        finally:
            running.cancel()

    async def _let_faults_happen(self) -> None:
        await Faults(self._cluster, History(self.loop.time), self.faults).run(0.0)
        self._faults_over.set()

    # --- for scenarios ---

    def producer(self, **settings: Any) -> AsyncProducer:
        return AsyncProducer(**{**self._doors(), **settings})

    def consumer(self, *topics: str, **settings: Any) -> AsyncConsumer:
        return AsyncConsumer(*topics, **{**self._doors(), **settings})

    def admin(self) -> AsyncAdmin:
        doors = self._doors()
        return AsyncAdmin(**doors, random_bytes=doors["random"].randbytes)

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Until it is there, with as many copies as there are brokers, three at most."""
        copies = min(3, len(self._cluster.seats))
        async with self.admin() as admin:
            while True:
                try:
                    await admin.create_topics([NewTopic(name, partitions, copies, configs)])
                    break
                except TopicAlreadyExists:
                    break  # the answer to the first try was lost
                except OttlaError as error:
                    if not error.retriable:
                        raise
                    await asyncio.sleep(0.5)
        self._topics[name] = partitions

    async def healed(self) -> None:
        """Wait until all faults are over and all copies of the topics made here are in sync."""
        await self._faults_over.wait()
        for name, partitions in self._topics.items():
            await self._cluster.in_sync(name, partitions)

    def kill(self, broker: int) -> None:
        """kill -9; `restart` brings it back."""
        self._cluster.kill(broker)

    def restart(self, broker: int) -> None:
        self._cluster.restart(broker)

    def _doors(self) -> dict[str, Any]:
        process: Process | None = self._machine.process
        if process is None or self.loop.current_process() is not process:
            raise RuntimeError("clients of a simulated cluster are made inside of its scenario: cluster.run(scenario)")
        world = self._machine.world()
        self._clients += 1  # a number of the run's own: those of clients elsewhere in this process go on
        return {
            "client_id": f"test-{self._clients}",
            "bootstrap_servers": self.bootstrap_servers,
            "transport": world.transport,
            "clock": world.clock,
            "random": world.random,
        }


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _drawn(faults: Sequence[str | Fault], seed: int, brokers: int, seconds: float) -> list[Fault]:
    kinds = [each for each in faults if isinstance(each, str)]
    if unknown := [each for each in kinds if each not in KINDS]:
        raise ValueError(f"there is no fault {', '.join(unknown)}; there are {', '.join(KINDS)}")
    random = Random(f"faults {seed}")
    drawn = draw_faults(random, kinds=kinds, brokers=brokers, work_s=seconds, pause_s=PAUSE_S)
    return drawn + [each for each in faults if isinstance(each, Fault)]
