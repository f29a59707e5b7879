"""Servers and loads as processes: started, asked how much CPU and memory they took, ended.

Every process finds compiled modules, as one that was installed does: a checkout whose environment forbids bytecode
files would be measured compiling itself. A broker gets a directory of its own and an address that is known before it
starts, so that the time to its first answer can be taken from outside. Whoever opens a `Child` ends it with `with`.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from bench.walk import requests

START_LIMIT_S: Final = 180.0  # a bound, far beyond what a busy machine needs
STOP_LIMIT_S: Final = 60.0
POLL_S: Final = 0.001
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
ROOT: Final = Path(__file__).parents[2]
_BYTECODE: Final = tempfile.TemporaryDirectory(prefix="ottla-walk-bytecode-")
ENVIRONMENT: Final = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPYCACHEPREFIX": _BYTECODE.name,
}


# Settings for every broker of this run, from the command line.
broker_settings: list[str] = []


class Child:
    """A process of ours; `program` is what its arguments are given to."""

    program: tuple[str, ...] = (sys.executable, "-m")
    start_limit_s = START_LIMIT_S
    stop_limit_s = STOP_LIMIT_S
    is_server = False  # a server goes on when its stdin ends, and stops at a signal
    directory = ROOT
    environment = ENVIRONMENT

    def __init__(self, *arguments: str) -> None:
        self.begun_s = time.perf_counter()
        self._process = subprocess.Popen(
            [*self.program, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("WALK_VERBOSE") else subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()

    def line(self) -> str:
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            raise RuntimeError(f"{self._process.args} ended without an answer; WALK_VERBOSE=1 shows what it said")
        return found

    def end(self) -> dict[str, Any]:
        """Let it know that it is over, and give what it says then."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return dict(json.loads(self.line()))

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    @property
    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise RuntimeError("no VmRSS")

    @property
    def open_files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._wait()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.poll() is None and self.is_server:
            self._process.terminate()
        self._wait()

    def _wait(self) -> None:
        self._process.wait(self.stop_limit_s)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class BareServer(Child):
    """One of bare.py."""

    is_server = True

    def __init__(self, *arguments: str) -> None:
        super().__init__("bench.walk.bare", *arguments)
        self.port = int(self.line())


class AnsweringServer(Child):
    """A Kafka broker of any make on `port`; made when it has answered its first request."""

    is_server = True

    def __init__(self, port: int, *arguments: str) -> None:
        self.port = port
        super().__init__(*arguments)
        self.answered_s = self._first_answer() - self.begun_s
        self.start_cpu_s = self.cpu_s

    def _first_answer(self) -> float:
        end_s = self.begun_s + self.start_limit_s
        while time.perf_counter() < end_s:
            try:
                ask(self.port, requests.api_versions())
            except OSError:
                if self._process.poll() is not None:
                    raise RuntimeError("the broker did not start; WALK_VERBOSE=1 shows why") from None
                time.sleep(POLL_S)
            else:
                return time.perf_counter()
        self._process.kill()
        raise TimeoutError(f"the broker did not answer within {self.start_limit_s} s")


class BrokerProcess(AnsweringServer):
    """`ottla broker start` in `directory`, with the durability that is compared with Kafka's own."""

    def __init__(self, directory: Path, settings: tuple[str, ...] = ("ottla.admin.listener=",)) -> None:
        port = free_port()
        pairs = [f"--set={each}" for each in ("ottla.durability=replicated", *settings, *broker_settings)]
        where = ["--data", str(directory), "--listen", f"127.0.0.1:{port}"]
        super().__init__(port, "ottla", "broker", "start", *where, *pairs)

    def create_topic(self, partitions: int) -> None:
        ask(self.port, requests.create_topic(partitions))


def load(kind: str, port: int, **task: Any) -> dict[str, Any]:
    """Run one load to its end and give what it saw."""
    with start_load(kind, port, **task) as child:
        return dict(json.loads(child.line()))


def start_load(kind: str, port: int, **task: Any) -> Child:
    return Child("bench.walk.load", json.dumps({"kind": kind, "port": port, **task}))


def ask(port: int, request: bytes) -> bytes:
    """One request on a connection of its own, and its answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        size = struct.unpack(">i", _exactly(connection, 4))[0]
        return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = connection.recv(count - len(found))
        if not more:
            raise ConnectionResetError("closed before the answer was whole")
        found += more
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
