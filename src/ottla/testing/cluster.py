"""Several brokers that are one cluster, in this process: for tests of what happens when one of them is gone.

    with KafkaCluster(brokers=3) as cluster:
        AnyClient(bootstrap_servers=cluster.bootstrap_servers)
        cluster.crash(cluster.leader_of("clicks", 0))

1. They are real brokers with real sockets on loopback; they speak with each other as processes would. Controllers
   beside them have the metadata log, as in any cluster of Kafka 4; their ids count from CONTROLLER_IDS, and they can be
   crashed and started as brokers can.
2. All of them run on one loop in one thread, so a test can look into every one of them (`call`).
3. `crash` takes a broker away without a word: its session ends, its sockets close, nothing is handed over and nothing
   is marked as clean. With `machine` the power fails: what was not synced is gone (only of data in memory, which is the
   default). `stop_broker` lets it leave in order. `start_broker` brings it back with the data it had.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.roles import Moves
from ottla.broker.security.first_users import FirstUser
from ottla.broker.server import Server, ServerInfo
from ottla.broker.settings import BrokerSettings
from ottla.broker.settings.endpoints import parse_protocol_map
from ottla.broker.world import World
from ottla.clock import SystemClock
from ottla.net.transport import TcpTransport
from ottla.records import RecordStream
from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
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
CONTROLLER_IDS: Final = 3_000
"""Of the first controller."""
CONTROLLER: Final = {
    "process.roles": "controller",
    "listeners": "CONTROLLER://127.0.0.1:0",
}
BROKER: Final = {"process.roles": "broker"}
PROTOCOLS: Final = "listener.security.protocol.map"
DEFAULT_PROTOCOLS: Final = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
OF_BROKERS: Final = (
    "advertised.listeners",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "ottla.schema.registry.listener",
)
QUICK_QUORUM: Final = {
    "broker.heartbeat.interval.ms": 200,
    "controller.quorum.auto.join.enable": True,
    "controller.quorum.fetch.timeout.ms": 1_000,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.election.backoff.max.ms": 300,
}
"""Whoever is gone is missed soon."""


class Place:
    """One node's place in the cluster: what stays when the node goes."""

    def __init__(self, files: Files, settings: Mapping[str, object]) -> None:
        self.files = files
        self.settings = dict(settings)
        self.boots = 0  # how often the machine came up
        self.server: Server | None = None
        self.addresses = ""  # where it was reached when it ran the last time

    def took(self, server: Server, info: ServerInfo) -> None:
        """It runs. It comes back where it was: clients may know nothing but these addresses."""
        self.settings["listeners"] = ",".join(f"{each.listener}://{each.host}:{each.port}" for each in info.endpoints)
        self.addresses = info.bootstrap_servers
        self.server = server


class KafkaCluster:
    """See the module."""

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        controllers: int = 1,
        directory: Path | str | None = None,
        racks: Sequence[str] = (),
        seed: int | None = None,
        users: Sequence[FirstUser] = (),
    ) -> None:
        """`settings` are for brokers and controllers. `controllers` is how many vote: one, three or five. `directory`
        keeps the data there, one folder for each node; None keeps it in memory, in the log.dirs of the settings if they
        name some. `racks` returns each broker its broker.rack. `users` can log in from the start."""
        self._random = Random(seed)
        self.cluster_id = uuid_to_text(random_uuid(self._random.randbytes))
        self._users = users
        self._directory = directory
        common = {**TEST_SETTINGS, **QUICK, **QUICK_QUORUM, **copied(min(brokers, 3)), **(settings or {})}
        del common["broker.id"]
        common |= _to_controllers(common)
        racks_of = {number: {"broker.rack": rack} for number, rack in enumerate(racks)}
        self._places = {
            number: self._place(f"broker-{number}", {**common, **BROKER, **racks_of.get(number, {}), "node.id": number})
            for number in range(brokers)
        }
        aside = {name: value for name, value in common.items() if not _is_of_brokers(name)}
        self._controllers = {
            number: self._place(f"controller-{number}", {**aside, **CONTROLLER, "node.id": number})
            for number in range(CONTROLLER_IDS, CONTROLLER_IDS + controllers)
        }
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def _place(self, name: str, settings: Mapping[str, object]) -> Place:
        chosen = dict(settings)
        if self._directory is None:
            chosen.setdefault("log.dirs", "/memory")
            chosen.setdefault("ottla.durability", "replicated")
        else:
            chosen["log.dirs"] = str(Path(self._directory) / name)
        return Place(MemoryFiles() if self._directory is None else DiskFiles(), chosen)

    # --- looking ---

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers that run."""
        return ",".join(place.server.info.bootstrap_servers for place in self._places.values() if place.server)

    def server(self, broker_id: int) -> Server:
        """A broker or controller that runs; touch it by `call` only."""
        found = self._place_of(broker_id).server
        if found is None:
            raise RuntimeError(f"node {broker_id} does not run")
        return found

    def _place_of(self, number: int) -> Place:
        return self._controllers[number] if number in self._controllers else self._places[number]

    @property
    def running(self) -> list[int]:
        """The brokers that run."""
        return [number for number, place in self._places.items() if place.server is not None]

    @property
    def running_controllers(self) -> list[int]:
        return [number for number, place in self._controllers.items() if place.server is not None]

    def controller(self) -> int:
        """The active controller; -1 while there is none."""

        def find() -> int:
            return next((each for each in self.running_controllers if self._is_active(each)), -1)

        return self.call(find)

    def voters(self) -> set[int]:
        """The controllers that vote, as the active one says; none while there is none."""

        def find() -> set[int]:
            nodes = [self.server(each).controller for each in self.running_controllers if self._is_active(each)]
            return {voter.id for node in nodes if node is not None for voter in node.following.quorum.raft.voters}

        return self.call(find)

    def _is_active(self, number: int) -> bool:
        found = self.server(number).controller
        return found is not None and found.controller.is_active

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
        for number in self._controllers:
            self.start_broker(number)
        self.wait_until(lambda: self.voters() == set(self._controllers))
        for number in self._places:
            self.start_broker(number)
        self.wait_until(lambda: self.call(self._all_know_all))
        return self

    def _all_know_all(self) -> bool:
        """Whether every broker that runs knows that the others do."""
        known = [self.server(each).broker.image.brokers for each in self.running]
        return all(each in image and not image[each].fenced for each in self.running for image in known)

    def stop(self) -> None:
        """Stop every node, the last ones without handing over: there is nobody left to take."""
        for number in (*self.running, *self.running_controllers):
            self._take_away(number)
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(WAIT_LIMIT_S)
        self._loop = self._thread = None

    def start_broker(self, broker_id: int) -> None:
        """Bring a broker or a controller (back) with the data it has."""
        self._wait(self._start(broker_id))

    def stop_broker(self, broker_id: int) -> None:
        """Let a broker leave in order: its leaderships go to others first."""
        place = self._place_of(broker_id)
        server, place.server = self.server(broker_id), None
        self._wait(server.stop())

    def crash(self, broker_id: int, *, machine: bool = False, session_stays: bool = False) -> None:
        """Take a broker or a controller away without a word, or its whole machine. `session_stays`: the others do not
        notice before `end_session`, or until the session has timed out."""
        place = self._take_away(broker_id)
        if not session_stays and broker_id in self._places:
            self.end_session(broker_id)
        if machine:
            place.boots += 1
            if isinstance(place.files, MemoryFiles):
                place.files.crash("nothing")

    def end_session(self, broker_id: int) -> None:
        """The session of a broker that crashed ends; see `crash`."""

        def end() -> bool:
            active = [self.server(each).controller for each in self.running_controllers if self._is_active(each)]
            for node in active:
                if node is not None:
                    node.controller.end_session(broker_id)
            return bool(active)

        if self.running_controllers:
            self.wait_until(lambda: self.call(end))

    def stop_following(self, broker_id: int, topic: str, partition: int) -> None:
        """Let a broker fetch no more of a partition, until the controller's next order about it."""

        def stop() -> None:
            moves = Moves([], [], [], [], [TopicPartition(topic, partition)], {})
            self.server(broker_id).broker.link.replication.apply(moves)

        self.call(stop)

    def _take_away(self, number: int) -> Place:
        """End a node without a word; gives its place."""
        place = self._place_of(number)
        server, place.server = self.server(number), None
        self._wait(server.crash())
        return place

    async def _start(self, broker_id: int) -> None:
        place = self._place_of(broker_id)
        server = Server(self._settings_of(place), self._world(place), first_users=self._users_of(broker_id))
        self._format(broker_id, place, {server.settings.metadata_directory, *server.settings.data_directories})
        place.took(server, await server.start())

    def _settings_of(self, place: Place) -> BrokerSettings:
        known = ",".join(each.addresses for each in self._controllers.values() if each.addresses)
        return BrokerSettings({**place.settings, "controller.quorum.bootstrap.servers": known})

    def _users_of(self, number: int) -> Sequence[FirstUser]:
        return self._users if number in self._controllers else ()

    def _world(self, place: Place) -> World:
        workers = 0 if isinstance(place.files, MemoryFiles) else 2
        boot_id = f"boot {place.boots}"
        return World(place.files, TcpTransport(), SystemClock(), self._random, workers=workers, boot_id=boot_id)

    def _format(self, number: int, place: Place, directories: Iterable[Path]) -> None:
        """As `kafka-storage format` does: directories say whose they are. The first controller finds no others, and
        begins the quorum."""
        for directory in directories:
            if not place.files.exists(directory):
                place.files.make_directory(directory)
                found = MetaProperties(1, self.cluster_id, number, random_uuid(self._random.randbytes))
                write_meta_properties(place.files, directory, found)

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


def copied(count: int) -> dict[str, int]:
    return {name: min(value, count) for name, value in COPIED.items()}


def _is_of_brokers(name: str) -> bool:
    """Whether it says nothing to a controller, which opens no listener for clients."""
    return name in OF_BROKERS or (
        name.startswith("listener.name.") and not name.startswith("listener.name.controller.")
    )


def _to_controllers(settings: Mapping[str, object]) -> dict[str, object]:
    """How nodes with these settings reach controllers: as brokers reach each other."""
    by_name: dict[str, str] = dict(parse_protocol_map(str(settings.get(PROTOCOLS, DEFAULT_PROTOCOLS))))
    inter = str(settings.get("inter.broker.listener.name", settings.get("security.inter.broker.protocol", "PLAINTEXT")))
    prefix = f"listener.name.{inter.lower()}."
    return {
        "controller.listener.names": "CONTROLLER",
        PROTOCOLS: ",".join(map(":".join, {**by_name, "CONTROLLER": by_name[inter.upper()]}.items())),
        "sasl.mechanism.controller.protocol": settings.get("sasl.mechanism.inter.broker.protocol", "GSSAPI"),
        **{
            f"listener.name.controller.{name.removeprefix(prefix)}": value
            for name, value in settings.items()
            if name.startswith(prefix)
        },
    }


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
