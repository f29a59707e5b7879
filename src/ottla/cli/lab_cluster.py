"""A cluster of processes on this machine: some brokers, for learning, tests and measurements.

    with LabCluster(directory, brokers=3) as lab:
        AnyClient(bootstrap_servers=lab.bootstrap_servers)
        lab.signal(0, signal.SIGKILL)

1. Every broker is `ottla broker start` in a process of its own, with its own folder below the directory (data, and
   broker.log with what it said). It keeps its port when it is started again. The first three are controllers, too
   (brokers/quorum.py); with `zookeeper` they are members of a cluster there instead.
2. `start` returns when everybody serves; a broker that does not come up is an error with the end of its log.
3. `stop` lets the brokers leave in order, all at once, and then ends a ZooKeeper; who does not go within STOP_LIMIT_S
   is killed. Nothing is left running.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.cli.brokers.plan import TOGETHER
from ottla.cli.brokers.quorum import (
    MOST_VOTERS,
    Quorum,
    common_settings,
    format_directories,
    new_quorum,
    own_settings,
    unused_ports,
)
from ottla.cli.client_files import properties_text, write_secret
from ottla.cluster.store.zookeeper.server import ZooKeeperServer, tail
from ottla.storage.files import DiskFiles

START_LIMIT_S: Final = 120.0
STOP_LIMIT_S: Final = 20.0
LOOK_EVERY_S: Final = 0.05
READY: Final = b" is ready at "
LEAVING_TOGETHER: Final = {"controlled.shutdown.retry.backoff.ms": 200}
"""Soon nobody is left to take over."""


class LabFailed(RuntimeError):
    """A process did not come up; says which and why."""


class LabBroker:
    """One broker's place: what stays when its process goes."""

    def __init__(self, number: int, directory: Path, port: int, host: str = "127.0.0.1") -> None:
        self.number = number
        self.host = host
        self.directory = directory
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class LabCluster:
    """See the module. `settings` are for every broker; `ports` are the brokers', free ones when there are none."""

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        ports: Sequence[int] = (),
        zookeeper: ZooKeeperServer | None = None,
    ) -> None:
        copies = min(brokers, 3)
        self._settings = {
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": min(copies, 2),
            "default.replication.factor": copies,
            "min.insync.replicas": min(copies, 2),
            "ottla.admin.listener": "",
            **({} if zookeeper is None else LEAVING_TOGETHER),
            **(settings or {}),
        }
        chosen = list(ports) or free_ports(brokers)
        self._directory = directory
        self._zookeeper = zookeeper
        self._quorum: Quorum | None = None
        self.brokers = [LabBroker(each, directory / f"broker-{each}", chosen[each]) for each in range(brokers)]

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """Of a cluster that has one."""
        assert self._zookeeper is not None, "these brokers are a quorum"
        return self._zookeeper

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(each.address for each in self.brokers)

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
        if self._zookeeper is not None:
            self._zookeeper.start()
        else:
            self._begin_quorum()
        for broker in self.brokers:
            self.begin(broker.number)
        for broker in self.brokers:
            self.wait_for(broker.number)

    def _begin_quorum(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._quorum = new_quorum(self._directory, len(self.brokers), unused_ports(MOST_VOTERS))
        format_directories(DiskFiles(), [(each.number, each.directory / "data") for each in self.brokers])

    def begin(self, number: int) -> None:
        """Start a broker without waiting for it."""
        broker = self.brokers[number]
        broker.directory.mkdir(parents=True, exist_ok=True)
        with broker.log.open("wb") as log:
            # A group of its own: Ctrl-C is for the lab, which stops everybody in order.
            broker.process = subprocess.Popen(
                self.command(broker), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def command(self, broker: LabBroker) -> list[str]:
        """How a broker is started."""
        if self._quorum is not None:
            return self._command_of_quorum(broker, self._quorum)
        settings = {**self._settings, "broker.id": broker.number}
        pairs = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "ottla", "broker", "start", "--zookeeper", self.zookeeper.connect]
        return [*command, "--listen", broker.address, "--data", str(broker.directory / "data"), *pairs]

    def _command_of_quorum(self, broker: LabBroker, quorum: Quorum) -> list[str]:
        from ottla.broker.settings import BrokerSettings

        common = {name: str(value) for name, value in self._settings.items()}
        settings = {
            **TOGETHER,
            **common,
            **common_settings(BrokerSettings(common), quorum, 0),
            **own_settings(quorum, broker.number, f"PLAINTEXT://{broker.address}"),
            "node.id": str(broker.number),
            "log.dirs": str(broker.directory / "data"),
        }
        file = broker.directory / "broker.properties"  # a password is in it, which is nobody's on the command line
        write_secret(file, properties_text(settings, "made for a lab"), replace=True)
        return [sys.executable, "-m", "ottla", "broker", "start", "--config", str(file)]

    def wait_for(self, number: int) -> None:
        """Until a broker serves."""
        broker, end = self.brokers[number], time.monotonic() + START_LIMIT_S
        while READY not in broker.log.read_bytes():
            if not broker.is_running or time.monotonic() > end:
                raise LabFailed(f"broker {number} did not start:\n{tail(broker.log)}")
            time.sleep(LOOK_EVERY_S)

    def start_broker(self, number: int) -> None:
        """Bring a broker back with the data it has."""
        self.begin(number)
        self.wait_for(number)

    def signal(self, number: int, what: signal.Signals) -> None:
        """SIGKILL, SIGSTOP, SIGCONT, SIGTERM; waits for the end of a broker that is to end."""
        process = self.brokers[number].process
        if process is None:
            raise RuntimeError(f"broker {number} was not started")
        process.send_signal(what)
        if what in (signal.SIGKILL, signal.SIGTERM):
            process.wait(STOP_LIMIT_S)

    def stop(self) -> None:
        running = [each.process for each in self.brokers if each.process is not None and each.is_running]
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
        if self._zookeeper is not None:
            self._zookeeper.stop()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
