"""A Spark cluster and a Connect server on this machine, out of the PySpark package: to learn, to try and to test.

    with StandaloneCluster(directory, workers=2) as cluster:
        session(master=cluster.master)                    # "spark://127.0.0.1:40001"

    with ConnectServer(directory, master="local[2]") as server:
        session(remote=server.remote)                     # "sc://localhost:40002"

1. The package has no start scripts for a cluster; bin/spark-class starts the same classes. Every process is one of its
   own, with its log in `directory`.
2. Everything listens on 127.0.0.1 and asks nobody who they are: this is no cluster for production.
3. `variables` are for the environment of all processes: a cluster whose Python is not this one (SPARK_HOME, PATH ...).
4. `start` returns when it can be used: the workers are registered, the server answers. `stop` ends all processes, and
   those that they started.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.running.session import SETTINGS, prepare_environment
from ottla.spark.running.spark_home import light_home

START_LIMIT_S: Final = 300.0  # a busy machine takes minutes for what takes seconds
STOP_LIMIT_S: Final = 10.0
LOOK_EVERY_S: Final = 0.1
_HOST: Final = "127.0.0.1"
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_REGISTERED: Final = "Successfully registered with master"


class SparkDidNotStart(OttlaError):
    """A process of Spark did not start."""


@dataclass
class SparkProcess:
    """One process and its log."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], deadline: float) -> None:
        """Until it is ready; SparkDidNotStart with the end of its log when it ends before, or takes too long."""
        while not is_ready():
            if not self.is_running or time.monotonic() > deadline:
                raise SparkDidNotStart(f"{self.name}: {self.tail()}")
            time.sleep(LOOK_EVERY_S)

    def tail(self, size_limit: int = 800) -> str:
        return self.log.read_text(errors="replace")[-size_limit:] if self.log.exists() else "(there is no log)"

    def stop(self) -> None:
        """End it and the processes that it started; they are a group of their own."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return
            try:
                self.process.wait(timeout=STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                continue


def begin(name: str, words: Sequence[str], directory: Path, variables: Mapping[str, str] | None = None) -> SparkProcess:
    """Start a program of bin/ with its log in the directory; `variables` are for its environment."""
    prepare_environment()
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{name}.log"
    program = [str(light_home() / "bin" / words[0]), *words[1:]]
    environment = {**os.environ, "SPARK_LOCAL_IP": _HOST, "SPARK_HOME": str(light_home()), **(variables or {})}
    with log.open("wb") as file:
        process = subprocess.Popen(
            program,
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    return SparkProcess(name, log, process)


class StandaloneCluster:
    """A master and some workers."""

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._variables = variables
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._port = free_port()
        self.processes: list[SparkProcess] = []

    @property
    def master(self) -> str:
        """What --master wants."""
        return f"spark://{_HOST}:{self._port}"

    def start(self) -> None:
        """Start all of them; returns when every worker is registered."""
        deadline = time.monotonic() + START_LIMIT_S
        try:
            where = ["--host", _HOST, "--port", str(self._port), "--webui-port", "0"]
            master = begin("master", ["spark-class", _MASTER, *where], self._directory, self._variables)
            self.processes.append(master)
            master.wait_until(lambda: _answers(self._port), deadline)
            workers = [self._worker(number + 1) for number in range(self._workers)]
            self.processes += workers
            for worker in workers:
                worker.wait_until(lambda log=worker.log: _REGISTERED in log.read_text(errors="replace"), deadline)  # type: ignore[misc]
        except BaseException:
            self.stop()
            raise

    def _worker(self, number: int) -> SparkProcess:
        size = ["-c", str(self._cores), "-m", self._memory, "-d", str(self._directory / f"work-{number}")]
        words = ["spark-class", _WORKER, "--host", _HOST, "--webui-port", "0", *size, self.master]
        return begin(f"worker-{number}", words, self._directory, self._variables)

    def stop(self) -> None:
        """End all of them, workers first."""
        while self.processes:
            self.processes.pop().stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class ConnectServer:
    """A Spark Connect server, on a master of its own choice."""

    def __init__(
        self,
        directory: Path,
        *,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._master = master
        self._variables = variables
        self._settings = {**SETTINGS, **(settings or {})}
        self._port = free_port()
        self.process: SparkProcess | None = None

    @property
    def remote(self) -> str:
        """What --remote wants."""
        return f"sc://localhost:{self._port}"

    def start(self) -> None:
        """Start it; returns when it answers."""
        settings = {
            **self._settings,
            "spark.connect.grpc.binding.address": _HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": _HOST,
            "spark.ui.enabled": "false",
        }
        confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        words = ["spark-submit", "--class", _CONNECT, "--name", "ottla", "--master", self._master, *confs]
        self.process = begin("connect", [*words, "spark-internal"], self._directory, self._variables)
        try:
            self.process.wait_until(lambda: _answers(self._port), time.monotonic() + START_LIMIT_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((_HOST, 0)) as probe:
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), timeout=1.0).close()
    except OSError:
        return False
    return True
