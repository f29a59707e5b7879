"""A real broker inside your test process: no container, no port to choose, gone when the block ends.

    with KafkaBroker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

It runs on a thread of its own with its own event loop and speaks Kafka over loopback, so any client library in any
language works against it. It keeps its data in memory unless a directory is named. Start-up takes a few milliseconds
after the imports; settings have Kafka's names.

`snapshot()` remembers what is in the broker, `rollback()` goes back to it: topics made since are removed, records,
committed offsets and transactions written since are forgotten. Topics that were deleted do not come back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.broker.cluster.policies import NO_POLICIES, Policies
from ottla.broker.security.first_users import FirstUser
from ottla.broker.server import Server, ServerInfo
from ottla.broker.settings import BrokerSettings
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.light_dataclasses import dataclass
from ottla.net.transport import TcpTransport
from ottla.storage.files import DiskFiles
from ottla.testing.files import MemoryFiles
from ottla.testing.rollback import forget_since
from ottla.values import TopicPartition

T = TypeVar("T")

START_LIMIT_S: Final = 120
STOP_LIMIT_S: Final = 120

# What a test wants: nothing to wait for, nothing outside the process, and records with timestamps of last year stay.
TEST_SETTINGS: Final[Mapping[str, object]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "broker.id": 0,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "ottla.admin.listener": "",
    "log.retention.check.interval.ms": 86_400_000,
}


@dataclass(frozen=True)
class Snapshot:
    """Where everything was."""

    end_offsets: Mapping[TopicPartition, int]
    topics: frozenset[str]


class KafkaBroker:
    """A broker on a thread. Use it with `with`, or `start()` and `stop()`."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: Path | str | None = None,
        seed: int | None = None,
        users: Mapping[str, str] | None = None,
        policies: Policies = NO_POLICIES,
    ) -> None:
        """`directory` keeps the data there, None keeps it in memory. `seed` makes ids repeatable. `users` are names and
        passwords of those who can log in with SCRAM-SHA-512 from the start. `policies` say which topics may be created
        and which settings altered (ottla.broker.cluster.policies)."""
        self._policies = policies
        chosen = {**TEST_SETTINGS, **(settings or {})}
        self._in_memory = directory is None
        chosen["log.dirs"] = "/memory" if directory is None else str(directory)
        if self._in_memory:
            # In memory nothing survives a crash anyway; waiting for a sync would only cost time.
            chosen.setdefault("ottla.durability", "replicated")
        self._settings = BrokerSettings(chosen)
        self._first_users = [FirstUser(name, password) for name, password in (users or {}).items()]
        self._random = Random(seed)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._stop: asyncio.Event
        self.info: ServerInfo

    @property
    def bootstrap_servers(self) -> str:
        """The address to give to a client."""
        if self._thread is None:
            raise RuntimeError("the broker is not running: use `with KafkaBroker() as broker:`, or call start() first")
        return self.info.bootstrap_servers

    def __repr__(self) -> str:
        where = self.info.bootstrap_servers if self._thread is not None else "not running"
        return f"<KafkaBroker {where}, data {'in memory' if self._in_memory else self._settings.data_directories[0]}>"

    def get_bootstrap_server(self) -> str:
        """The name that testcontainers' KafkaContainer has for it."""
        return self.bootstrap_servers

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        ready: Future[ServerInfo] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="ottla-test-broker", daemon=True)
        self._thread.start()
        self.info = ready.result(START_LIMIT_S)
        return self

    def stop(self) -> None:
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        if thread.is_alive():
            loop.call_soon_threadsafe(self._stop.set)
            thread.join(STOP_LIMIT_S)
            if thread.is_alive():
                raise TimeoutError(f"the test broker did not stop within {STOP_LIMIT_S} s")
        self._thread = self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, ready: Future[ServerInfo]) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                raise

    async def _serve(self, ready: Future[ServerInfo]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        files: Any = MemoryFiles() if self._in_memory else DiskFiles()
        world = World(files, TcpTransport(), SystemClock(), self._random, workers=0 if self._in_memory else 2)
        self._server = Server(self._settings, world, first_users=self._first_users, policies=self._policies)
        info = await self._server.start()
        ready.set_result(info)
        try:
            await self._stop.wait()
        finally:
            await self._server.stop()

    def _running(self) -> tuple[asyncio.AbstractEventLoop, Server]:
        if self._loop is None or self._server is None:
            raise RuntimeError("the broker is not running; a test that stops it should use kafka_broker_fresh")
        return self._loop, self._server

    def call(self, function: Callable[[Server], T]) -> T:
        """Run a function on the broker's loop, with its server; for tests that want to look inside."""
        loop, server = self._running()

        async def run() -> T:
            return function(server)

        return asyncio.run_coroutine_threadsafe(run(), loop).result(START_LIMIT_S)

    # -- snapshot and rollback ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        def take(server: Server) -> Snapshot:
            broker = server.broker
            ends = {partition.name: partition.log.log_end_offset for partition in broker.replicas}
            return Snapshot(ends, frozenset(broker.image.topics()))

        return self.call(take)

    def rollback(self, snapshot: Snapshot) -> None:
        """Forget everything since the snapshot. Clients that are still connected see their topics shrink or vanish."""
        loop, server = self._running()
        forgetting = forget_since(server.broker, snapshot.end_offsets, snapshot.topics)
        asyncio.run_coroutine_threadsafe(forgetting, loop).result(START_LIMIT_S)
