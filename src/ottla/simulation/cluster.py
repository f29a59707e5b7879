"""Real brokers on simulated machines: one of its own, several that share an ensemble, or some under controllers.

    cluster = SimulatedCluster(loop, Random(7), brokers=3)
    cluster.start()
    await cluster.ready()
    cluster.kill(0); cluster.restart(0)

    SimulatedCluster(loop, Random(7), brokers=3, controllers=3)         # their truth is a metadata log

1. A broker is `ottla.broker.server.Server` with the doors of its machine; nothing of it is replaced.
2. Somebody watches: a broker whose process ended by itself is started again after RESTART_S, as systemd would.
3. Clients have machines of their own (`client_machine`), and only know the brokers' addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Final

from ottla.broker.cluster.alone import AloneLink
from ottla.broker.replication.partition import Partition
from ottla.broker.server import Server
from ottla.broker.settings import BrokerSettings
from ottla.cluster.features import first_features
from ottla.records import RecordStream
from ottla.simulation.controllers.service import Controllers
from ottla.simulation.ensemble import HOST, Ensemble
from ottla.simulation.loop import SimulationLoop
from ottla.simulation.machine import Machine
from ottla.simulation.network import SimulatedNetwork, Weather
from ottla.simulation.rot import Rots
from ottla.simulation.timeline import Timeline
from ottla.storage.directory.checkpoints import MetaProperties, write_meta_properties
from ottla.storage.segment.damage import Damage
from ottla.testing.files import Keep
from ottla.values import random_uuid, uuid_to_text

RESTART_S: Final = 1.0
CHECK_S: Final = 0.1
STOP_LIMIT_S: Final = 60.0
READ_BYTES: Final = 1 << 20
PORT: Final = 9092
SESSION_S: Final = 6.0
BEATS: Final = 4
"""Heartbeats of a broker in the time of its session."""

SETTINGS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
    "ottla.admin.listener": "",
    "ottla.allow.insecure.listeners": "true",
    "log.dirs": "/data",
    "replica.lag.time.max.ms": 5_000,
    "replica.fetch.wait.max.ms": 2_000,
    "controlled.shutdown.retry.backoff.ms": 100,
    "auto.create.topics.enable": "false",
}
COPIED: Final = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "default.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "min.insync.replicas": 2,
}


class Seat:
    """One broker's place: what stays when its process goes."""

    def __init__(self, machine: Machine, settings: BrokerSettings) -> None:
        self.machine = machine
        self.settings = settings
        self.server: Server | None = None  # of the process that lives, once it is ready
        self.is_wanted = False


class SimulatedCluster:
    """See the module."""

    def __init__(
        self,
        loop: SimulationLoop,
        random: Random,
        *,
        brokers: int,
        controllers: int = 0,
        settings: Mapping[str, object] | None = None,
        timeline: Timeline | None = None,
        session_s: float = SESSION_S,
        weather: Weather | None = None,
    ) -> None:
        self.loop = loop
        self.timeline = Timeline(loop.time) if timeline is None else timeline
        self.random = random
        self.network = SimulatedNetwork(loop, Random(random.getrandbits(64)), weather)
        self.ensemble: Ensemble | None = None
        self.controllers: Controllers | None = None
        fitting = {name: min(value, brokers) for name, value in COPIED.items()}
        common = {**SETTINGS, **fitting, **(settings or {})}
        if controllers:
            common |= self._make_controllers(controllers, common, session_s)
        elif brokers > 1:
            cluster_id = uuid_to_text(random_uuid(random.randbytes))
            self.ensemble = Ensemble(self.network, cluster_id, tuple(first_features()))
            self.ensemble.session_timeout_ms = session_s * 1_000
        self.seats = {number: self._seat(number, common) for number in range(brokers)}
        self.clients: list[Machine] = []
        self.rots = Rots(self)
        self.deaths: list[str] = []  # processes that ended by themselves, and why

    def _make_controllers(self, count: int, settings: Mapping[str, object], session_s: float) -> Mapping[str, object]:
        """The controllers, and what brokers must know of them."""
        self.controllers = Controllers(
            self.network,
            Random(self.random.getrandbits(64)),
            uuid_to_text(random_uuid(self.random.randbytes)),
            count=count,
            settings=_settings(tuple(settings.items())),
            session_s=session_s,
            timeline=self.timeline,
        )
        return {
            "process.roles": "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self.controllers.bootstrap_servers,
            "broker.heartbeat.interval.ms": int(session_s * 1_000 / BEATS),
            "broker.session.timeout.ms": int(session_s * 1_000),
        }

    def _seat(self, number: int, settings: Mapping[str, object]) -> Seat:
        host = f"10.0.0.{number + 1}"
        machine = Machine(self.loop, self.network, host, Random(self.random.getrandbits(64)))
        id_name = "broker.id" if self.controllers is None else "node.id"
        own = {id_name: number, "listeners": f"PLAINTEXT://{host}:{PORT}"}
        seat = Seat(machine, _settings(tuple({**settings, **own}.items())))
        if self.controllers is not None:
            self._format(seat, number, self.controllers.quorum.cluster_id)
        return seat

    def _format(self, seat: Seat, number: int, cluster_id: str) -> None:
        """What kafka-storage format writes."""
        files = seat.machine.disk.mount()
        for path in seat.settings.data_directories:
            files.make_directory(path)
            files.sync_directory(path.parent)
            directory_id = random_uuid(self.random.randbytes)
            write_meta_properties(files, path, MetaProperties(1, cluster_id, number, directory_id))

    @property
    def truth_hosts(self) -> Sequence[str]:
        """The machines that keep the cluster's truth; none where brokers keep it themselves."""
        return [HOST] if self.controllers is None else self.controllers.hosts

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{seat.machine.host}:{PORT}" for seat in self.seats.values())

    def client_machine(self) -> Machine:
        """A machine for one client, without a process yet."""
        machine = Machine(
            self.loop, self.network, f"10.0.1.{len(self.clients) + 1}", Random(self.random.getrandbits(64))
        )
        self.clients.append(machine)
        return machine

    # --- coming and going ---

    def start(self) -> None:
        if self.controllers is not None:
            self.controllers.start()
        for number in self.seats:
            self.restart(number)

    def restart(self, number: int) -> None:
        """Start the broker's process, unless it lives."""
        seat = self.seats[number]
        seat.is_wanted = True
        if seat.machine.process is None or seat.machine.process.is_dead:
            seat.machine.power_on()
            process = seat.machine.boot(f"broker {number}")
            self.timeline.add(f"broker {number}", "started", process.name)
            self.loop.start(process, self._serve(number, seat), f"broker {number}")

    async def _serve(self, number: int, seat: Seat) -> None:
        process = seat.machine.process
        assert process is not None, "it runs in it"
        member = None if self.ensemble is None else self.ensemble.connect(process, seat.machine.host)
        try:
            server = Server(seat.settings, seat.machine.world(), shared_store=member)
            await server.start()
            seat.server = server
            self.timeline.add(f"broker {number}", "ready", process.name)
            await server.failed.wait()
            reason = str(server.failure)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self.deaths.append(f"{self.loop.time():.3f} broker {number}: {reason}")
        self.timeline.add(f"broker {number}", "ended", f"by itself: {reason}")
        self.loop.call_soon(self._ended_by_itself, number, context=self.loop.outside.context.copy())

    def _ended_by_itself(self, number: int) -> None:
        """The process exits; who watches starts it again."""
        self.kill(number)
        self.loop.call_later(RESTART_S, self.restart, number)

    def repair(self) -> None:
        """What an administrator does when all is over: wall clocks are set right, and a broker whose log says that it
        must be started again, because the disk failed under its metadata, is."""
        for number, seat in self.seats.items():
            seat.machine.clock.set_right()
            link = None if seat.server is None else seat.server.broker.link
            if isinstance(link, AloneLink) and link.needs_restart:
                self.kill(number)
                self.restart(number)

    def kill(self, number: int) -> None:
        """kill -9; it stays away until `restart`."""
        seat = self.seats[number]
        seat.is_wanted, seat.server = False, None
        self.timeline.add(f"broker {number}", "killed")
        seat.machine.kill()

    async def stop(self, number: int) -> None:
        """SIGTERM: it hands over and goes, within STOP_LIMIT_S; it stays away until `restart`. Who asks once more while
        it goes has lost patience: that is kill -9."""
        seat = self.seats[number]
        process, server = seat.machine.process, seat.server
        seat.server = None
        if server is not None and process is not None:
            self.timeline.add(f"broker {number}", "stopping")
            stopping = self.loop.start(process, server.stop(), "stop")
            end_s = self.loop.time() + STOP_LIMIT_S
            await _until(lambda: stopping.done() or process.is_dead or self.loop.time() > end_s)
        if seat.machine.process is process:
            self.kill(number)

    def cut_power(self, number: int, keep: Keep = "any") -> None:
        """The whole machine; it stays away until `restart`."""
        seat = self.seats[number]
        seat.is_wanted, seat.server = False, None
        self.timeline.add(f"broker {number}", "power cut")
        seat.machine.power_off(keep)

    # --- inspecting, from outside of all processes ---

    def servers(self) -> dict[int, Server]:
        """The brokers that are ready."""
        return {number: seat.server for number, seat in self.seats.items() if seat.server is not None}

    def replicas(self, topic: str, partition: int) -> dict[int, Partition]:
        found = {number: server.broker.replicas.get((topic, partition)) for number, server in self.servers().items()}
        return {number: each for number, each in found.items() if each is not None}

    def leaders(self) -> list[int]:
        """The broker that leads, for each partition in the order of their names; as brokers believe, so that there may
        be two."""
        found = [
            (partition.name, number)
            for number, server in self.servers().items()
            for partition in server.broker.replicas
            if partition.is_leader
        ]
        return [number for _, number in sorted(found)]

    def is_in_sync(self, topic: str, partitions: int, *, is_quiet: bool = False) -> bool:
        """Whether every broker runs, and every copy of the topic is in sync; with `is_quiet` all of them have the same
        end and have heard that it is committed, which is only so when nobody writes."""
        if len(self.servers()) < len(self.seats):
            return False
        copies = [self.replicas(topic, number) for number in range(partitions)]
        return all(self._is_led(each) and (not is_quiet or _is_level(each)) for each in copies)

    def _is_led(self, copies: Mapping[int, Partition]) -> bool:
        return _is_whole(copies) and len(copies) == min(3, len(self.seats))

    async def in_sync(self, topic: str, partitions: int, *, is_quiet: bool = False) -> None:
        """Wait until it is."""
        await _until(lambda: self.is_in_sync(topic, partitions, is_quiet=is_quiet))

    def are_coordinators_in_sync(self) -> bool:
        """Whether every copy of every topic of a coordinator is in sync; there are none before somebody needs them."""
        names = {each.name for server in self.servers().values() for each in server.broker.replicas}
        return all(_is_whole(self.replicas(*each)) for each in names if each.topic.startswith("__"))

    async def coordinators_in_sync(self) -> None:
        """Wait until they are."""
        await _until(self.are_coordinators_in_sync)

    async def ready(self) -> None:
        """Wait until every broker runs."""
        await _until(lambda: len(self.servers()) == len(self.seats))

    def damage_at(self, topic: str, partition: int, offset: int) -> Damage | None:
        """What the only broker says that it cannot read there; None where there are others that must repair it."""
        copies = self.replicas(topic, partition) if len(self.seats) == 1 else {}
        damages = [damage for copy in copies.values() for segment in copy.log.segments for damage in segment.damages]
        return next((damage for damage in damages if damage.first_offset <= offset < damage.next_offset), None)

    def committed_bytes(self, topic: str, partition: int) -> dict[int, bytes]:
        """What every copy holds below its high watermark."""
        return {number: _committed(copy) for number, copy in self.replicas(topic, partition).items()}


@lru_cache(maxsize=64)
def _settings(pairs: tuple[tuple[str, object], ...]) -> BrokerSettings:
    """Settings do not change, and reading them takes as long as starting a broker on them."""
    return BrokerSettings(dict(pairs))


async def _until(condition: Callable[[], bool]) -> None:
    """Virtual time costs nothing, so asking again and again is as good as being told, and touches no broker."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(CHECK_S)


def _is_whole(copies: Mapping[int, Partition]) -> bool:
    """Whether one of them leads, and all that there should be are in sync with it."""
    states = [each.state for number, each in copies.items() if each.state and each.state.leader == number]
    return len(states) == 1 and len(states[0].isr) == len(states[0].replicas) == len(copies)


def _is_level(copies: Mapping[int, Partition]) -> bool:
    ends = {(each.log.log_end_offset, each.log.high_watermark) for each in copies.values()}
    return len(ends) == 1 and all(end == mark for end, mark in ends)


def _committed(partition: Partition) -> bytes:
    log, pieces = partition.log, bytearray()
    offset = log.log_start_offset
    while offset < log.high_watermark:
        piece = log.read(offset, READ_BYTES, up_to="high_watermark", at_least_one_batch=True).slice.read()
        whole = list(RecordStream(piece))
        pieces += piece[: sum(batch.size_bytes for batch in whole)]
        offset = whole[-1].next_offset
    return bytes(pieces)
