"""A cluster of controllers and brokers of Ottla and of Apache Kafka 4.3, as processes on this machine.

    with KRaftCluster(directory, {11: OTTLA, 12: KAFKA}, jars=find_jars("4.3"), controllers=3) as cluster:
        cluster.signal(11, signal.SIGKILL)
        cluster.start_node(11)

1. A node is a number, ports, directories and a properties file that is the same whoever runs there: Ottla's nodes are
   started with the file that Apache's would be. `sides` says whose process lives in a place when it is started next;
   controllers are Apache's unless it says otherwise.
2. Directories are formatted with our kafka-storage, the controllers' as the first voters of a dynamic quorum.
3. What processes of a place said before is kept beside their log. What is asked of such a cluster is judging.py's.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.cluster.judging import KAFKA, OTTLA, Judging
from tests.patience import HANG_S

from ottla.cli.kafka.storage import run as storage
from ottla.cli.lab_cluster import LOOK_EVERY_S, STOP_LIMIT_S, LabFailed, free_ports
from ottla.cluster.store.zookeeper.server import tail
from ottla.values import uuid_to_text

CLUSTER_ID: Final = "b3R0bGEtZ29sZGVuLTAwMg"
SMALL_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STARTED: Final = {OTTLA: re.compile(rb" is ready at "), KAFKA: re.compile(rb"Kafka Server started")}
VOTER_DIRECTORIES: Final = [uuid_to_text(b"controller dir %d" % number) for number in (1, 2, 3)]
COMMON: Final[Mapping[str, object]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
}
DIES_BY: Final = (signal.SIGKILL, signal.SIGTERM)


class Node:
    """One node's place: what stays when its process goes."""

    def __init__(self, number: int, directory: Path, port: int, role: str) -> None:
        self.number = number
        self.directory = directory
        self.port = port
        self.role = role
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "node.log"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class KRaftCluster(Judging):
    """See the module."""

    def __init__(
        self,
        directory: Path,
        sides: Mapping[int, str],
        *,
        jars: Path,
        controllers: int = 1,
        voters: Mapping[int, str] | None = None,
        settings: Mapping[str, object] | None = None,
        disks: int = 1,
        release: str = "",
        by_settings: bool = False,
    ) -> None:
        """`voters` are the sides of the controllers, instead of so many of Apache's. `disks` is how many log
        directories a broker has; `settings` are for all nodes. `release` is whose features the cluster begins with; the
        newest ones otherwise. `by_settings`: the settings name the voters (controller.quorum.voters), not the log."""
        self.jars = jars
        voters = dict.fromkeys(range(1, controllers + 1), KAFKA) if voters is None else voters
        self.sides = {**voters, **sides}
        self.said_by: dict[Path, str] = {}
        ports = iter(free_ports(len(voters) + len(sides)))
        self.controllers = {
            number: Node(number, directory / f"controller-{number}", next(ports), "controller") for number in voters
        }
        self.brokers = {number: Node(number, directory / f"broker-{number}", next(ports), "broker") for number in sides}
        self.nodes = {**self.controllers, **self.brokers}
        copies = min(len(sides), 2)
        self._settings = {
            **COMMON,
            **self._where_controllers_are(by_settings=by_settings),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": 1,
            "default.replication.factor": copies,
            **(settings or {}),
        }
        self.extra: dict[int, Mapping[str, object]] = {}  # settings of single nodes
        self._by_settings = by_settings
        self._disks = disks
        self._release = ["--release-version", release] if release else []
        for node in self.nodes.values():
            self.format(node)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(each.address for each in self.brokers.values())

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(each.address for each in self.controllers.values())

    def _where_controllers_are(self, *, by_settings: bool) -> dict[str, str]:
        if not by_settings:
            return {"controller.quorum.bootstrap.servers": self.bootstrap_controllers}
        voters = ",".join(f"{node.number}@{node.address}" for node in self.controllers.values())
        return {"controller.quorum.voters": voters}

    def place(self, number: int) -> Node:
        return self.nodes[number]

    def of(self, side: str) -> list[int]:
        """The brokers of a side."""
        return [number for number in self.brokers if self.sides[number] == side]

    def data(self, number: int) -> list[Path]:
        """Its log directories."""
        node = self.nodes[number]
        count = self._disks if node.role == "broker" else 1
        return [node.directory / ("data" if index == 0 else f"data-{index}") for index in range(count)]

    def files(self, number: int, topic: str, partition: int) -> list[Path]:
        """Of a partition's log, in whichever directory that lies."""
        name = f"{topic}-{partition}"
        return sorted(each for directory in self.data(number) for each in (directory / name).glob("*"))

    def format(self, node: Node) -> None:
        """Make its directories those of a node of this cluster."""
        node.directory.mkdir(parents=True, exist_ok=True)
        self._configure(node)
        voters = ",".join(
            f"{each.number}@{each.address}:{directory}"
            for each, directory in zip(self.controllers.values(), VOTER_DIRECTORIES, strict=False)
        )
        how = ["--initial-controllers", voters] if node.role == "controller" else ["--no-initial-controllers"]
        if self._by_settings:
            how = []
        assert storage(["format", "-t", CLUSTER_ID, "-c", str(node.properties), *how, *self._release]) == 0

    def _configure(self, node: Node) -> None:
        """Write its properties; those of Apache's are the same, but for where Ottla serves metrics."""
        listener = "CONTROLLER" if node.role == "controller" else "PLAINTEXT"
        settings = {
            **self._settings,
            "process.roles": node.role,
            "node.id": node.number,
            "listeners": f"{listener}://{node.address}",
            "log.dirs": ",".join(map(str, self.data(node.number))),
            **self.extra.get(node.number, {}),
        }
        if self._side(node.number) == OTTLA:
            settings["ottla.admin.listener"] = ""
        if node.role == "controller":
            del settings["inter.broker.listener.name"]
        node.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    # --- processes ---

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        for group in (self.controllers, self.brokers):
            for number in group:
                self.begin(number)
            for number in group:
                self.wait_for(number)

    def begin(self, number: int) -> None:
        """Start a node without waiting for it."""
        node = self.nodes[number]
        if node.log.exists():
            kept = node.log.with_name(f"node.{len(self.said_by)}.log")
            node.log.rename(kept)
            self.said_by[kept] = self.said_by.pop(node.log)
        side = self._side(number)
        self._configure(node)
        self.said_by[node.log] = side
        command = self.command(node) if side == OTTLA else self.java("kafka.Kafka", str(node.properties))
        with node.log.open("wb") as log:
            node.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _side(self, number: int) -> str:
        return self.sides.get(number, KAFKA)

    def command(self, node: Node) -> list[str]:
        return [sys.executable, "-m", "ottla", "broker", "start", "--config", str(node.properties)]

    def java(self, main_class: str, *arguments: str) -> list[str]:
        return ["java", *SMALL_JVM, "-cp", f"{self.jars}/*", main_class, *arguments]

    def wait_for(self, number: int) -> None:
        """Until a node serves."""
        node, started, end = self.nodes[number], STARTED[self._side(number)], time.monotonic() + HANG_S
        while not started.search(node.log.read_bytes()):
            if not node.is_running or time.monotonic() > end:
                raise LabFailed(f"node {number} did not start:\n{tail(node.log)}")
            time.sleep(LOOK_EVERY_S)

    def start_node(self, number: int) -> None:
        """Bring a node back with the data it has."""
        self.begin(number)
        self.wait_for(number)

    def signal(self, number: int, what: signal.Signals) -> None:
        """SIGKILL, SIGSTOP, SIGCONT, SIGTERM; waits for the end of a node that is to end."""
        process = self.nodes[number].process
        assert process is not None, f"node {number} was not started"
        process.send_signal(what)
        if what in DIES_BY:
            process.wait(HANG_S)

    def stop(self) -> None:
        """Brokers first: controllers take their leaderships over."""
        for group in (self.brokers, self.controllers):
            self._stop(node for node in group.values() if node.is_running)

    def _stop(self, nodes: Iterable[Node]) -> None:
        running = [node.process for node in nodes if node.process is not None]
        for process in running:
            process.send_signal(signal.SIGCONT)  # a paused one would not hear the other
            process.terminate()
        end = time.monotonic() + STOP_LIMIT_S
        for process in running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # --- the quorum ---

    @property
    def active_controller(self) -> int:
        """Who leads the metadata log, as Kafka's tool tells it."""
        said = self.tool(
            "MetadataQuorumCommand", "--bootstrap-controller", self.bootstrap_controllers, "describe", "--status"
        )
        found = re.search(r"LeaderId:\s+(\d+)", said)
        assert found is not None, said
        return int(found[1])
