"""Several brokers that are one cluster, in this process: for tests of what happens when one of them is gone.

    with KafkaCluster(brokers=3) as cluster:
        AnyClient(bootstrap_servers=cluster.bootstrap_servers)
        cluster.crash(cluster.leader_of("clicks", 0))

1. They are real brokers with real sockets on loopback; they speak with each other as processes would. What they share
   is a store in memory in the place of ZooKeeper.
2. All of them run on one loop in one thread, so a test can look into every one of them (`call`).
3. `crash` takes a broker away without a word: its session ends, its sockets close, nothing is handed over and nothing
   is marked as clean. With `machine` the power fails: what was not synced is gone (only of data in memory, which is the
   default). `stop_broker` lets it leave in order. `start_broker` brings it back with the data it had.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.roles import Moves
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.cluster.features import first_features
from ottla.cluster.store.shared_memory import MemoryMember, SharedMemory
from ottla.net.transport import TcpTransport
from ottla.records import RecordStream
from ottla.storage.files import DiskFiles, Files
from ottla.testing.broker import TEST_SETTINGS
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition, random_uuid, uuid_to_text

T = TypeVar("T")

WAIT_LIMIT_S: Final = 300.0
LOOK_EVERY_S: Final = 0.02
QUIET_LIMIT_S: Final = 120.0
READ_BYTES: Final = 1 << 20
COPIED: Final = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "default.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
}
QUICK: Final = {"replica.lag.time.max.ms": 2_000, "controlled.shutdown.retry.backoff.ms": 100}


class _Place:
    """One broker's place in the cluster: what stays when the broker goes."""

    def __init__(self, files: Files, settings: BrokerSettings) -> None:
        self.files = files
        self.settings = settings
        self.boots = 0  # how often the machine came up
        self.server: Server | None = None
        self.member: MemoryMember | None = None


class KafkaCluster:
    """See the module."""

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        racks: Sequence[str] = (),
        seed: int | None = None,
    ) -> None:
        """`directory` keeps the data there, one folder for each broker; None keeps it in memory, in the log.dirs of
        the settings if they name some. `racks` returns each broker its broker.rack."""
        self._random = Random(seed)
        self._shared = SharedMemory(uuid_to_text(random_uuid(self._random.randbytes)), first_features())
        rack_of = {number: {"broker.rack": rack} for number, rack in enumerate(racks)}
        self._places = {
            number: self._place(number, min(brokers, 3), {**(settings or {}), **rack_of.get(number, {})}, directory)
            for number in range(brokers)
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _place(self, number: int, copies: int, settings: Mapping[str, object], directory: Path | str | None) -> _Place:
        fitting = {name: min(value, copies) for name, value in COPIED.items()}
        chosen: dict[str, object] = {**TEST_SETTINGS, **QUICK, **fitting, **settings, "broker.id": number}
        if directory is None:
            chosen.setdefault("log.dirs", "/memory")
            chosen.setdefault("ottla.durability", "replicated")
        else:
            chosen["log.dirs"] = str(Path(directory) / f"broker-{number}")
        return _Place(MemoryFiles() if directory is None else DiskFiles(), BrokerSettings(chosen))

    # --- looking ---

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers that run."""
        return ",".join(place.server.info.bootstrap_servers for place in self._places.values() if place.server)

    def server(self, broker_id: int) -> Server:
        """A broker that runs; touch it by `call` only."""
        found = self._places[broker_id].server
        if found is None:
            raise RuntimeError(f"broker {broker_id} does not run")
        return found

    @property
    def running(self) -> list[int]:
        return [number for number, place in self._places.items() if place.server is not None]

    def controller(self) -> int:
        """The broker that gives orders."""
        return self.call(lambda: self._shared_controller())

    def _shared_controller(self) -> int:
        for number in self.running:
            member = self.server(number).broker.member
            if member is not None and member.role.is_active:
                return number
        return -1

    def leader_of(self, topic: str, partition: int) -> int:
        """Who leads, as the controller says; -1 when nobody does."""

        def find() -> int:
            for number in self.running:
                state = self.server(number).broker.image.partition(topic, partition)
                if state is not None and number == state.leader:
                    return number
            return -1

        return self.call(find)

    def in_sync(self, topic: str, partition: int) -> tuple[int, ...]:
        """Who is in sync, as the leader says; nobody when there is no leader."""
        leader = self.leader_of(topic, partition)
        if leader < 0:
            return ()
        found = self.call(lambda: self.server(leader).broker.replicas.get((topic, partition)))
        return found.state.isr if found is not None and found.state is not None else ()

    def committed_bytes(self, topic: str, partition: int) -> dict[int, bytes]:
        """What every replica that runs holds below its high watermark, byte by byte."""

        def find() -> dict[int, bytes]:
            replicas = {number: self.server(number).broker.replicas.get((topic, partition)) for number in self.running}
            return {number: _committed(found) for number, found in replicas.items() if found is not None}

        return self.call(find)

    def wait_until(self, condition: Callable[[], bool], limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until something is so; the condition runs in the caller's thread."""
        end = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"it did not become so within {limit_s:g} s")
            time.sleep(LOOK_EVERY_S)

    def wait_for_copies(self, topic: str, partitions: int, copies: int = 3) -> None:
        """Wait until every partition has so many replicas in sync."""
        self.wait_until(lambda: all(len(self.in_sync(topic, each)) == copies for each in range(partitions)))

    def check_replicas(self, topic: str, partitions: int, copies: int = 3) -> None:
        """Fail unless, after a quiet moment, every replica is in sync and holds the same bytes."""

        def are_equal() -> bool:
            found = [self.committed_bytes(topic, number) for number in range(partitions)]
            return all(len(each) == copies and len(set(each.values())) == 1 for each in found)

        self.wait_for_copies(topic, partitions, copies)
        self.wait_until(are_equal, QUIET_LIMIT_S)

    # --- coming and going ---

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="ottla-test-cluster", daemon=True)
        self._thread.start()
        ready.result(WAIT_LIMIT_S)
        for number in self._places:
            self.start_broker(number)
        return self

    def stop(self) -> None:
        """Stop every broker, the last ones without handing over: there is nobody left to take."""
        for number in self.running:
            self.crash(number)
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(WAIT_LIMIT_S)
        self._loop = self._thread = None

    def start_broker(self, broker_id: int) -> None:
        """Bring a broker (back) with the data it has."""
        self._wait(self._start(broker_id))

    def stop_broker(self, broker_id: int) -> None:
        """Let a broker leave in order: its leaderships go to others first."""
        place = self._places[broker_id]
        server, place.server = self.server(broker_id), None
        self._wait(server.stop())

    def crash(self, broker_id: int, *, machine: bool = False, session_stays: bool = False) -> None:
        """Take a broker away without a word, or its whole machine. `session_stays`: the others do not notice before
        `end_session`, as until the time-out of a session."""
        place = self._places[broker_id]
        server, place.server = self.server(broker_id), None
        assert place.member is not None, "a broker that runs has a session"
        member = place.member
        member.outlives_close = session_stays
        self._wait(self._crash(server, member))
        if machine:
            place.boots += 1
            if isinstance(place.files, MemoryFiles):
                place.files.crash("nothing")

    def stop_following(self, broker_id: int, topic: str, partition: int) -> None:
        """Let a broker fetch no more of a partition, until the controller's next order about it."""

        def stop() -> None:
            moves = Moves([], [], [], [TopicPartition(topic, partition)], {})
            self.server(broker_id).broker.link.replication.apply(moves)

        self.call(stop)

    async def _start(self, broker_id: int) -> None:
        place = self._places[broker_id]
        workers = 0 if isinstance(place.files, MemoryFiles) else 2
        world = World(
            place.files, TcpTransport(), SystemClock(), self._random, workers=workers, boot_id=f"boot {place.boots}"
        )
        place.member = self._shared.join()
        server = Server(place.settings, world, shared_store=place.member)
        info = await server.start()
        # It comes back where it was: clients may know nothing but these addresses.
        where = ",".join(f"{each.listener}://{each.host}:{each.port}" for each in info.endpoints)
        place.settings = place.settings.replaced({"listeners": where})
        place.server = server

    def end_session(self, broker_id: int) -> None:
        """The session of a broker that crashed ends; see `crash`."""
        for member in self.call(lambda: [each for each in self._shared.members if each.outlives_close]):
            self.call(partial(self._shared.end_outlived, member, broker_id))

    async def _crash(self, server: Server, member: MemoryMember) -> None:
        if not member.outlives_close:
            self._shared.end_session(member, is_notified=False)
        await server.crash()

    # --- the thread ---

    def _run(self, ready: Future[None]) -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        loop.call_soon(ready.set_result, None)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(_end_tasks())
            loop.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("the cluster does not run: use `with KafkaCluster() as cluster:`")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_LIMIT_S)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the cluster's loop."""

        async def run() -> T:
            return function()

        return self._wait(run())


def _committed(partition: Partition) -> bytes:
    log, pieces = partition.log, bytearray()
    offset = log.log_start_offset
    while offset < log.high_watermark:
        piece = log.read(offset, READ_BYTES, up_to="high_watermark", at_least_one_batch=True).slice.read()
        whole = list(RecordStream(piece))
        pieces += piece[: sum(batch.size_bytes for batch in whole)]
        offset = whole[-1].next_offset
    return bytes(pieces)


async def _end_tasks() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.sleep(0)  # connections that were cut a moment ago are closed by the loop's next turn
