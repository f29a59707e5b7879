"""The processes of a real cluster: a controller and brokers, each behind two proxies; killed, paused, started.

    processes = Processes(directory, proxies, settings)
    await processes.start()
    await processes.kill(1)
    await processes.start_broker(1)

1. Nodes run as those of `ottla broker start --brokers N` (cli/brokers), without the supervisor that would start them
   again by itself; the controller is a process of its own, which no fault hits. Each broker listens on ports that were
   free when the test began, and advertises those of its proxies; its proxies let callers in as soon as it starts,
   because brokers reach each other by them to be ready.
2. Faults may overlap: a broker is started again when the last fault that keeps it down has ended, and goes on when the
   last pause has.
3. A process that ends without a fault is a failure with the end of its log (`check`).
4. `stop` kills whatever runs. When this process dies, they see the end of a pipe and stop.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.brokers.child import Child
from ottla.cli.brokers.layout import directories_of
from ottla.cli.brokers.plan import internal_copies
from ottla.cli.brokers.quorum import format_directories
from ottla.cli.brokers.supervisor import MEMBER
from ottla.cli.client_files import properties_text, write_secret
from ottla.cli.lab_cluster import free_ports
from ottla.simulation.real.proxy import HOST, Proxy
from ottla.storage.files import DiskFiles

START_LIMIT_S: Final = 120.0
STOP_LIMIT_S: Final = 20.0
CONTROLLER_ID: Final = 1_000
LOG_TAIL_BYTES: Final = 2_000
LISTENERS: Final = ("CLIENTS", "BROKERS")
SETTINGS: Final[Mapping[str, object]] = {
    "listener.security.protocol.map": ",".join(f"{each}:PLAINTEXT" for each in (*LISTENERS, "CONTROLLER")),
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "inter.broker.listener.name": "BROKERS",
    "ottla.admin.listener": "",
    "auto.create.topics.enable": "true",
    "replica.lag.time.max.ms": 3_000,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
}


class ProcessFailed(RuntimeError):
    """A broker or the controller ended without a fault; says which, and what it said last."""


class Processes:
    """See the module. `proxies` are those for clients and those for brokers, by broker."""

    def __init__(
        self, directory: Path, proxies: Sequence[tuple[Proxy, Proxy]], settings: Mapping[str, object] | None = None
    ) -> None:
        self._directory = directory
        self._proxies = proxies
        self._settings = {**SETTINGS, **_copies(len(proxies)), **(settings or {})}
        ports = iter(free_ports(len(proxies) * len(LISTENERS) + 1))
        self._controller_port = next(ports)
        self._ports = [[next(ports) for _ in LISTENERS] for _ in proxies]
        self._downs: Counter[int] = Counter()
        self._pauses: Counter[int] = Counter()
        self._controller = self._child(MEMBER, "controller", str(directory / "controller.properties"), "controller")
        self._brokers = [
            self._child(MEMBER, f"broker-{each}", str(directory / f"broker-{each}.properties"), str(each))
            for each in range(len(proxies))
        ]
        self._moves = [asyncio.Lock() for _ in proxies]  # a broker is started or ended by one at a time

    def _child(self, module: str, name: str, *arguments: str) -> Child:
        return Child(module, arguments, log=self._directory / f"{name}.log")

    # --- coming and going ---

    async def start(self) -> None:
        homes = {number: directories_of([self._directory], number)[0] for number in range(len(self._brokers))}
        homes[CONTROLLER_ID] = self._directory / "controller"
        format_directories(DiskFiles(), list(homes.items()))
        self._write("controller", self._settings_of_controller(homes[CONTROLLER_ID]))
        for number in range(len(self._brokers)):
            self._write(f"broker-{number}", self._settings_of(number))
        await self._serving(self._controller, "controller")
        await asyncio.gather(*(self._begin(number) for number in range(len(self._brokers))))

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        write_secret(self._directory / f"{name}.properties", properties_text(settings, "made by a test"))

    async def stop(self) -> None:
        for child in (*self._brokers, self._controller):
            if child.is_running:
                child.kill()
                await child.ended()

    async def start_broker(self, number: int) -> None:
        """Undo a `kill` or `terminate`; the broker comes back when it was the last one."""
        async with self._moves[number]:
            self._downs[number] -= 1
            if not self._downs[number]:
                await self._begin(number)

    async def kill(self, number: int) -> None:
        """kill -9."""
        await self._end(number, signal.SIGKILL)

    async def terminate(self, number: int) -> None:
        """SIGTERM; one that does not stop in order within STOP_LIMIT_S (its peers may be cut off) is killed."""
        await self._end(number, signal.SIGTERM)

    async def _end(self, number: int, how: signal.Signals) -> None:
        async with self._moves[number]:
            self._downs[number] += 1
            child = self._brokers[number]
            if how is signal.SIGTERM and not self._pauses[number]:
                await child.stop(STOP_LIMIT_S)
            elif child.is_running:
                child.kill()
                await child.ended()
            for proxy in self._proxies[number]:
                proxy.broker_port = None

    def pause(self, number: int) -> None:
        """SIGSTOP."""
        self._pauses[number] += 1
        self._brokers[number].signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """SIGCONT, when it was the last pause."""
        self._pauses[number] -= 1
        if not self._pauses[number]:
            self._brokers[number].signal(signal.SIGCONT)

    def check(self) -> None:
        """Raises when somebody ended whom no fault had ended."""
        if not self._controller.is_running:
            raise ProcessFailed(f"the controller ended:\n{self._said('controller')}")
        for number, child in enumerate(self._brokers):
            if not child.is_running and not self._downs[number] and not self._moves[number].locked():
                raise ProcessFailed(f"broker {number} ended without a fault:\n{self._said(f'broker-{number}')}")

    # --- one process ---

    async def _begin(self, number: int) -> None:
        for proxy, port in zip(self._proxies[number], self._ports[number], strict=True):
            proxy.broker_port = port
        await self._serving(self._brokers[number], f"broker-{number}")
        if self._pauses[number]:
            self._brokers[number].signal(signal.SIGSTOP)

    async def _serving(self, child: Child, name: str) -> None:
        await child.start()
        try:
            async with asyncio.timeout(START_LIMIT_S):
                answer = await child.serving()
        except TimeoutError:
            answer = None
        if answer is None:
            raise ProcessFailed(f"{name} did not start within {START_LIMIT_S:g} s:\n{self._said(name)}")

    def _said(self, name: str) -> str:
        try:
            return (self._directory / f"{name}.log").read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return "nothing"

    def _settings_of_controller(self, home: Path) -> dict[str, str]:
        own = {
            **self._of_everybody(CONTROLLER_ID, home),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{HOST}:{self._controller_port}",
        }
        common = {name: value for name, value in self._settings.items() if name != "inter.broker.listener.name"}
        return {name: str(value) for name, value in {**common, **own}.items()}

    def _settings_of(self, number: int) -> dict[str, str]:
        own = {
            **self._of_everybody(number, directories_of([self._directory], number)[0]),
            "process.roles": "broker",
            "listeners": _endpoints(self._ports[number]),
            "advertised.listeners": _endpoints([proxy.port for proxy in self._proxies[number]]),
        }
        return {name: str(value) for name, value in {**self._settings, **own}.items()}

    def _of_everybody(self, node_id: int, home: Path) -> dict[str, object]:
        return {
            "node.id": node_id,
            "log.dirs": home,
            "controller.quorum.voters": f"{CONTROLLER_ID}@{HOST}:{self._controller_port}",
            "ottla.log.level": "WARNING",
        }


def _endpoints(ports: Iterable[int]) -> str:
    return ",".join(f"{listener}://{HOST}:{port}" for listener, port in zip(LISTENERS, ports, strict=True))


def _copies(brokers: int) -> dict[str, object]:
    copies = min(brokers, 3)
    return {
        **internal_copies(brokers),
        "default.replication.factor": copies,
        "min.insync.replicas": min(copies, 2),
    }
