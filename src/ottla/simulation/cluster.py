"""Real brokers on simulated machines: one of its own, several that share a ZooKeeper, or some under controllers.

    cluster = SimulatedCluster(loop, Random(7), brokers=3)
    cluster.start()
    await cluster.ready()
    cluster.kill(0); cluster.restart(0)

    SimulatedCluster(loop, Random(7), brokers=3, controllers=3)                  # their truth is a metadata log
    SimulatedCluster(loop, Random(7), brokers=3, controllers=3, combined=True)   # and they keep it themselves

1. A broker is `ottla.broker.server.Server` with the doors of its machine; nothing of it is replaced. A controller is
   one, too (controllers.py).
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
from ottla.cluster.features import FEATURES, first_features
from ottla.cluster.image import ClusterImage
from ottla.records import RecordStream
from ottla.simulation.controllers import FIRST_ID, Controllers
from ottla.simulation.loop import SimulationLoop
from ottla.simulation.machine import Machine
from ottla.simulation.network import SimulatedNetwork, Weather
from ottla.simulation.rot import Rots
from ottla.simulation.simulated_zookeeper import HOST, SimulatedZooKeeper
from ottla.simulation.timeline import Timeline
from ottla.storage.segment.damage import Damage
from ottla.testing.files import Keep
from ottla.values import random_uuid, uuid_to_text

RESTART_S: Final = 1.0
CHECK_S: Final = 0.1
STOP_LIMIT_S: Final = 60.0
READ_BYTES: Final = 1 << 20
PORT: Final = 9092
SESSION_S: Final = 6.0

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
    """The place of a broker or a controller: what stays when its process goes."""

    def __init__(self, name: str, machine: Machine, settings: BrokerSettings) -> None:
        self.name = name
        self.machine = machine
        self.settings = settings
        self.begun: Server | None = None  # of the process that was started last, also while it is not ready
        self.server: Server | None = None  # of the process that lives, once it is ready
        self.is_wanted = False
        self.features = FEATURES  # of the version that is started next


class SimulatedCluster:
    """See the module."""

    def __init__(
        self,
        loop: SimulationLoop,
        random: Random,
        *,
        brokers: int,
        controllers: int = 0,
        combined: bool = False,
        is_old: bool = False,
        settings: Mapping[str, object] | None = None,
        timeline: Timeline | None = None,
        session_s: float = SESSION_S,
        weather: Weather | None = None,
    ) -> None:
        self.loop = loop
        self.timeline = Timeline(loop.time) if timeline is None else timeline
        self.random = random
        self.network = SimulatedNetwork(loop, Random(random.getrandbits(64)), weather)
        self.zookeeper: SimulatedZooKeeper | None = None
        self.controllers: Controllers | None = None
        fitting = {name: min(value, brokers) for name, value in COPIED.items()}
        common = {**SETTINGS, **fitting, **(settings or {})}
        if controllers:
            first = 0 if combined else FIRST_ID
            hosts = {first + each: _host(each) if combined else f"10.0.9.{each + 1}" for each in range(controllers)}
            self.controllers = Controllers(Random(random.getrandbits(64)), hosts, session_s=session_s, is_old=is_old)
            common |= self.controllers.of_brokers
        elif brokers > 1:
            cluster_id = uuid_to_text(random_uuid(random.randbytes))
            self.zookeeper = SimulatedZooKeeper(self.network, cluster_id, tuple(first_features()))
            self.zookeeper.session_timeout_ms = session_s * 1_000
        self.seats = {number: self._broker(number, common) for number in range(brokers)}
        alone = [] if self.controllers is None else [each for each in self.controllers.hosts if each not in self.seats]
        self.nodes = {**self.seats, **{node: self._controller(node, common) for node in alone}}
        """The brokers, and the controllers that are no brokers."""
        self.clients: list[Machine] = []
        self.rots = Rots(self)
        self.deaths: list[str] = []  # processes that ended by themselves, and why

    def _broker(self, number: int, common: Mapping[str, object]) -> Seat:
        host, controllers = _host(number), self.controllers
        id_name, listeners = "broker.id" if controllers is None else "node.id", f"PLAINTEXT://{host}:{PORT}"
        own = {id_name: number, "listeners": listeners}
        if controllers is not None and number in controllers.hosts:
            own |= controllers.of_voter(number, listeners)
        return self._seat(f"broker {number}", number, host, {**common, **own})

    def _controller(self, node: int, common: Mapping[str, object]) -> Seat:
        assert self.controllers is not None, "it is one of them"
        own = {"node.id": node, **self.controllers.of_voter(node, None)}
        return self._seat(f"controller {node}", node, self.controllers.hosts[node], {**common, **own})

    def _seat(self, name: str, node: int, host: str, settings: Mapping[str, object]) -> Seat:
        machine = Machine(self.loop, self.network, host, Random(self.random.getrandbits(64)))
        seat = Seat(name, machine, _settings(tuple(settings.items())))
        if self.controllers is not None:
            self.controllers.format(machine.disk.mount(), seat.settings, node, self.random)
            seat.features = self.controllers.features
        return seat

    @property
    def truth_hosts(self) -> Sequence[str]:
        """The machines that keep the cluster's truth; none where brokers keep it themselves."""
        return [HOST] if self.controllers is None else list(self.controllers.hosts.values())

    @property
    def active_controller(self) -> int | None:
        """The node that decides now, of those that know who that is; None while nobody does, or there is none."""
        running = {node: seat.begun for node, seat in self.nodes.items() if seat.begun is not None}
        return None if self.controllers is None else self.controllers.active(running)

    @property
    def voters(self) -> Sequence[int]:
        return [] if self.controllers is None else list(self.controllers.hosts)

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
        for number in self.nodes:
            self.restart(number)

    def restart(self, number: int) -> None:
        """Start the process of a broker or a controller, unless it lives."""
        seat = self.nodes[number]
        seat.is_wanted = True
        if seat.machine.process is None or seat.machine.process.is_dead:
            seat.machine.power_on()
            process = seat.machine.boot(seat.name)
            self.timeline.add(seat.name, "started", process.name)
            self.loop.start(process, self._serve(number, seat), seat.name)

    async def _serve(self, number: int, seat: Seat) -> None:
        process = seat.machine.process
        assert process is not None, "it runs in it"
        member = None if self.zookeeper is None else self.zookeeper.connect(process, seat.machine.host)
        try:
            server = seat.begun = Server(seat.settings, seat.machine.world(seat.features), shared_store=member)
            await server.start()
            seat.server = server
            self.timeline.add(seat.name, "ready", process.name)
            await server.failed.wait()
            reason = str(server.failure)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        self.deaths.append(f"{self.loop.time():.3f} {seat.name}: {reason}")
        self.timeline.add(seat.name, "ended", f"by itself: {reason}")
        self.loop.call_soon(self._ended_by_itself, number, context=self.loop.outside.context.copy())

    def _ended_by_itself(self, number: int) -> None:
        """The process exits; who watches starts it again."""
        self.kill(number)
        self.loop.call_later(RESTART_S, self.restart, number)

    def repair(self) -> None:
        """What an administrator does when all is over: wall clocks are set right, and a broker whose log says that it
        must be started again, because the disk failed under its metadata, is."""
        for number, seat in self.nodes.items():
            seat.machine.clock.set_right()
            link = None if seat.server is None else seat.server.broker.link
            if isinstance(link, AloneLink) and link.needs_restart:
                self.kill(number)
                self.restart(number)

    def kill(self, number: int) -> None:
        """kill -9; it stays away until `restart`."""
        seat = self.nodes[number]
        seat.is_wanted, seat.server, seat.begun = False, None, None
        self.timeline.add(seat.name, "killed")
        seat.machine.kill()

    async def stop(self, number: int) -> None:
        """SIGTERM: it hands over and goes, within STOP_LIMIT_S; it stays away until `restart`. Who asks once more while
        it goes has lost patience: that is kill -9."""
        seat = self.nodes[number]
        process, server = seat.machine.process, seat.server
        seat.server = None
        if server is not None and process is not None:
            self.timeline.add(seat.name, "stopping")
            stopping = self.loop.start(process, server.stop(), "stop")
            end_s = self.loop.time() + STOP_LIMIT_S
            await _until(lambda: stopping.done() or process.is_dead or self.loop.time() > end_s)
        if seat.machine.process is process:
            self.kill(number)

    def cut_power(self, number: int, keep: Keep = "any") -> None:
        """The whole machine; it stays away until `restart`."""
        seat = self.nodes[number]
        seat.is_wanted, seat.server, seat.begun = False, None, None
        self.timeline.add(seat.name, "power cut")
        seat.machine.power_off(keep)

    def end_session(self, broker: int) -> None:
        """The active controller gives up a broker that lives."""
        active = self.active_controller
        if active is None:
            return
        seat = self.nodes[active]
        assert seat.begun is not None, "it is active"
        assert seat.begun.controller is not None, "it is a controller"
        assert seat.machine.process is not None, "and runs"
        end = seat.begun.controller.controller.end_session
        self.loop.call_soon(end, broker, context=seat.machine.process.context.copy())

    # --- inspecting, from outside of all processes ---

    def servers(self) -> dict[int, Server]:
        """The brokers that are ready."""
        return {number: seat.server for number, seat in self.seats.items() if seat.server is not None}

    def images(self) -> dict[str, ClusterImage]:
        """What every node of a cluster under controllers knows of it, once as a broker and once as a controller."""
        found: dict[str, ClusterImage] = {}
        for seat in self.nodes.values():
            if self.controllers is not None and seat.server is not None:
                found[seat.name] = seat.server.broker.image
                if seat.server.controller is not None:
                    found[f"the controller of {seat.name}"] = seat.server.controller.broker.image
        return found

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


def _host(number: int) -> str:
    """Of a broker."""
    return f"10.0.0.{number + 1}"


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
