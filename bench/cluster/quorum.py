"""Three nodes of Ottla and three of Apache Kafka 4.3.1, each broker and controller: how long a lost node is felt, and
what many partitions cost. In turns, with the same properties files and the defaults of both.

1. kill -9 says nothing to anybody: other voters notice after controller.quorum.fetch.timeout.ms (2 s by default), the
   controller fences a broker after broker.session.timeout.ms (9 s). That is part of both sides' time.
2. A client of ours asks and writes on both sides; it tries again at once.
3. Many partitions: made topic by topic, until every partition has a leader and all its copies in sync; then the node of
   the active controller is killed, until every partition is led by another one. Idle CPU and memory are those of all
   nodes while nobody asks anything.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from bench.walk.figures import Figure
from tests.conformance.kafka_jars import find_jars

import ottla
from ottla.cli.brokers.quorum import unused_ports
from ottla.cli.kafka.storage import run as storage
from ottla.client.admin.topics import PartitionDescription
from ottla.errors import OttlaError
from ottla.values import uuid_to_text

OURS, APACHE = "ottla", "kafka"
CLUSTER: Final = "b3R0bGEtZ29sZGVuLTAwMg"
DIRECTORIES: Final = [uuid_to_text(b"controller dir %d" % number) for number in (1, 2, 3)]
JVM: Final = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC")
STARTED: Final = {OURS: b" is ready at ", APACHE: b"Kafka Server started"}
LIMIT_S: Final = 300.0
IDLE_S: Final = 30.0
MANY, TOPICS = 10_000, 100
SETTINGS: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
}


class Nodes:
    """Three nodes of one side."""

    def __init__(self, directory: Path, side: str) -> None:
        self.directory, self.side = directory, side
        self.numbers = (1, 2, 3)
        ports = unused_ports(6)
        self._broker_ports = dict(zip(self.numbers, ports[:3], strict=True))
        self._controller_ports = dict(zip(self.numbers, ports[3:], strict=True))
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in self.numbers:
            self._format(number)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._broker_ports.values())

    def _home(self, number: int) -> Path:
        return self.directory / f"{self.side}-{number}"

    def _format(self, number: int) -> None:
        home = self._home(number)
        home.mkdir(parents=True)
        controllers = {each: f"127.0.0.1:{port}" for each, port in self._controller_ports.items()}
        settings = {
            **SETTINGS,
            "node.id": number,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._broker_ports[number]},CONTROLLER://{controllers[number]}",
            "log.dirs": str(home / "data"),
            "controller.quorum.bootstrap.servers": ",".join(controllers.values()),
            **({"ottla.admin.listener": ""} if self.side == OURS else {}),
        }
        properties = home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        voters = ",".join(f"{each}@{controllers[each]}:{DIRECTORIES[each - 1]}" for each in self.numbers)
        with contextlib.redirect_stdout(None):
            code = storage(["format", "-t", CLUSTER, "-c", str(properties), "--initial-controllers", voters])
        assert not code, "the directory cannot be formatted"

    def __enter__(self) -> Self:
        for number in self.numbers:
            self.begin(number)
        for number in self.numbers:
            self.wait_for(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def begin(self, number: int) -> None:
        home = self._home(number)
        if self.side == OURS:
            command = [sys.executable, "-m", "ottla", "broker", "start", "--config", str(home / "server.properties")]
        else:
            jars = find_jars("4.3")
            command = ["java", *JVM, "-cp", f"{jars}/*", "kafka.Kafka", str(home / "server.properties")]
        with (home / "node.log").open("wb") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def wait_for(self, number: int) -> None:
        log = self._home(number) / "node.log"
        _wait(lambda: STARTED[self.side] in log.read_bytes())

    def kill(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGKILL)
        self.processes[number].wait()

    def cpu_s(self) -> float:
        tasks = [
            task for each in self.processes.values() for task in Path(f"/proc/{each.pid}/task").glob("*/schedstat")
        ]
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def memory_mb(self) -> float:
        """Of the largest node."""
        return max(_rss_mb(each.pid) for each in self.processes.values() if each.poll() is None)


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1e3
    return 0.0


def _wait(condition: Callable[[], bool], pause_s: float = 0.02) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not become so within {LIMIT_S:g} s")
        time.sleep(pause_s)


def _make(admin: ottla.Admin, topic: str, partitions: int) -> None:
    """Again and again, until somebody decides."""
    while True:
        with contextlib.suppress(OttlaError):
            admin.create_topics([ottla.NewTopic(topic, partitions, 3)], timeout=5)
            return
        time.sleep(0.01)


# --- a lost node ------------------------------------------------------------------------------------------------------


class Lost(NamedTuple):
    """Seconds from kill -9 of the active controller's node to a topic that is made, and of a leader to a write."""

    topic_s: float
    write_s: float


def lost_node(directory: Path, rounds: int) -> list[Figure]:
    with Nodes(directory, OURS) as ours, Nodes(directory, APACHE) as apache:
        pairs = [(_lose(ours, number), _lose(apache, number)) for number in range(rounds)]
    topic = [our.topic_s / their.topic_s for our, their in pairs]
    write = [our.write_s / their.write_s for our, their in pairs]
    return [
        Figure("active controller lost, over Apache's", statistics.median(topic), _seconds(pairs, 0), at_most=1.0),
        Figure("leader lost, over Apache's", statistics.median(write), _seconds(pairs, 1), at_most=1.0),
    ]


def _seconds(pairs: list[tuple[Lost, Lost]], index: int) -> str:
    ours, theirs = (statistics.median(pair[side][index] for pair in pairs) for side in (0, 1))
    return f"{ours:.2f} s and {theirs:.2f} s, {len(pairs)} rounds"


def _lose(nodes: Nodes, turn: int) -> Lost:
    servers = nodes.bootstrap_servers
    with ottla.Admin(bootstrap_servers=servers) as admin:
        _make(admin, f"clicks-{turn}", 1)
        _wait(lambda: _in_sync(admin, [f"clicks-{turn}"]) == 1)
        active = admin.describe_metadata_quorum(timeout=10).leader
        nodes.kill(active)
        began = time.perf_counter()
        _make(admin, f"after-{turn}", 1)
        topic_s = time.perf_counter() - began
        nodes.begin(active)
        nodes.wait_for(active)
        _wait(lambda: _in_sync(admin, [f"clicks-{turn}"]) == 1)
    with ottla.Admin(bootstrap_servers=servers) as admin, ottla.Producer(bootstrap_servers=servers) as producer:
        producer.send(f"clicks-{turn}", b"before").result(LIMIT_S)
        leader = admin.describe_topics([f"clicks-{turn}"], timeout=10)[f"clicks-{turn}"].partitions[0].leader
        assert leader is not None, "it was just written to"
        nodes.kill(leader)
        began = time.perf_counter()
        producer.send(f"clicks-{turn}", b"after").result(LIMIT_S)
        write_s = time.perf_counter() - began
    nodes.begin(leader)
    nodes.wait_for(leader)
    return Lost(topic_s, write_s)


# --- many partitions --------------------------------------------------------------------------------------------------


class Many(NamedTuple):
    """What many partitions take: seconds, shares of a processor, megabytes."""

    created_s: float
    idle_share: float
    memory_mb: float
    dead_s: float
    moved_s: float


def many_partitions(directory: Path, rounds: int) -> list[Figure]:
    """Once, whatever `rounds` says, one side after the other: both together would not fit on two processors."""
    ours, theirs = (_many(directory / f"many-{side}", side) for side in (OURS, APACHE))
    names = {
        "created_s": ("created, until all are in sync", "s", 1.0),
        "idle_share": ("idle CPU of all nodes", "processors", 1.0),
        "memory_mb": ("memory of the largest node", "MB", 0.15),
        "dead_s": ("a node dead, until all are led", "s", 1.0),
        "moved_s": ("controller moved, until a topic is made", "s", 1.0),
    }
    return [
        Figure(
            f"{MANY:,} partitions: {name}",
            getattr(ours, field) / getattr(theirs, field),
            f"{getattr(ours, field):.3g} and {getattr(theirs, field):.3g} {unit}",
            at_most=bar,
        )
        for field, (name, unit, bar) in names.items()
    ]


def _many(directory: Path, side: str) -> Many:
    with Nodes(directory, side) as nodes, ottla.Admin(bootstrap_servers=nodes.bootstrap_servers) as admin:
        names = [f"many-{number}" for number in range(TOPICS)]
        began = time.perf_counter()
        for name in names:
            _make(admin, name, MANY // TOPICS)
        _wait(lambda: _in_sync(admin, names) == MANY, 0.2)
        created_s = time.perf_counter() - began
        time.sleep(IDLE_S)
        before_s, began = nodes.cpu_s(), time.perf_counter()
        time.sleep(IDLE_S)
        idle_share = (nodes.cpu_s() - before_s) / (time.perf_counter() - began)
        memory_mb = nodes.memory_mb()
        active = admin.describe_metadata_quorum(timeout=10).leader
        follower = next(number for number in nodes.numbers if number != active)
        nodes.kill(follower)
        began = time.perf_counter()
        _wait(lambda: _led_by_others(admin, names, follower) == MANY, 0.2)
        dead_s = time.perf_counter() - began
        nodes.begin(follower)
        nodes.wait_for(follower)
        _wait(lambda: _in_sync(admin, names) == MANY, 0.2)
        active = admin.describe_metadata_quorum(timeout=10).leader
        nodes.kill(active)
        began = time.perf_counter()
        _make(admin, "after", 1)
        moved_s = time.perf_counter() - began
    return Many(created_s, idle_share, memory_mb, dead_s, moved_s)


def _described(admin: ottla.Admin, names: list[str]) -> Iterator[PartitionDescription]:
    with contextlib.suppress(OttlaError):
        for topic in admin.describe_topics(names, timeout=10).values():
            yield from topic.partitions


def _in_sync(admin: ottla.Admin, names: list[str]) -> int:
    """How many partitions have a leader and three copies in sync."""
    return sum(each.leader is not None and len(each.in_sync) == 3 for each in _described(admin, names))


def _led_by_others(admin: ottla.Admin, names: list[str], gone: int) -> int:
    return sum(each.leader not in (None, gone) for each in _described(admin, names))
