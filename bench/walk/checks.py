"""What checking rights and counting quotas cost, in instructions of the broker per request.

A check takes one microsecond of thirty, and two runs of the same broker differ by more than that. So the broker runs
under callgrind, which counts what it executes, whatever else runs on the machine. It is the real broker as a process,
and requests come by sockets. Its jobs run meanwhile, so a load is counted several times, and the least count holds. The
kernel's part is not counted, so a check looks dearer here than it is.

Rights: a broker with an authorizer and RULES rules against one without. Quotas: the same broker with and without one
that is far away; its windows are longer, because it runs 50 times slower than it would.
"""

from __future__ import annotations

import shutil
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.walk import requests
from bench.walk.access import CHECKED, OPEN, RULES
from bench.walk.figures import Figure
from bench.walk.processes import BrokerProcess, ask
from bench.walk.quotas import FAR_AWAY
from bench.walk.throughput import FETCH_BYTES, new_directory

REQUESTS: Final = 40
WARM_REQUESTS: Final = 200
WINDOWS: Final = ("quota.window.size.seconds=60",)
FEW_JOBS: Final = ("log.cleaner.enable=false",)
RIGHTS_AT_LEAST: Final = 0.98
QUOTAS_AT_LEAST: Final = 0.97


class CountedBroker(BrokerProcess):
    """A broker whose instructions are counted. It runs 50 times slower than others, from its first import on."""

    start_limit_s = stop_limit_s = 600.0

    def __init__(self, directory: Path, settings: tuple[str, ...]) -> None:
        self._counts = directory.with_name(f"{directory.name}.counts")
        callgrind = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self._counts}")
        self.program = (*callgrind, *self.program)
        self.environment = {**self.environment, "PYTHONHASHSEED": "0"}
        super().__init__(directory, settings)
        self._control("--instr=on")

    def instructions(self, work: Callable[[], None]) -> int:
        """How many it executes while `work` asks it something."""
        self._control("--zero")
        work()
        self._control("--dump")
        newest = max(self._counts.parent.glob(f"{self._counts.name}.*"), key=lambda path: int(path.suffix[1:]))
        lines = newest.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(("totals:", "summary:")))

    def _control(self, command: str) -> None:
        subprocess.run(["callgrind_control", command, str(self._process.pid)], check=True, capture_output=True)


class Load:
    """The same request again and again on one connection, `at_once` of them together."""

    def __init__(self, port: int, request: bytes, at_once: int = 1) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._requests = request * at_once
        self._at_once = at_once

    def run(self, count: int) -> None:
        for _ in range(count // self._at_once):
            self._socket.sendall(self._requests)
            for _ in range(self._at_once):
                size = int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL), "big")
                if len(self._socket.recv(size, socket.MSG_WAITALL)) < size or not size:
                    raise SystemExit("the broker closed the connection")


CELLS: Final = {
    "produce 1 KB, one at a time": (requests.produce(1_000, 0, 1), 1),
    "produce 1 KB, five at a time": (requests.produce(1_000, 0, 1), 5),
    "produce 16 KB, one at a time": (requests.produce(16_384, 0, 1), 1),
    "produce 16 KB, five at a time": (requests.produce(16_384, 0, 1), 5),
    "fetch 1 MB": (requests.fetch(FETCH_BYTES, 0), 1),
}


def checks(root: Path, rounds: int) -> list[Figure]:
    """Both tables; nothing where there is no valgrind."""
    if shutil.which("valgrind") is None:
        print("checks: valgrind is not installed, so instructions are not counted", file=sys.stderr)
        return []
    return [*_rights(root, rounds), *_quotas(root, rounds)]


def _rights(root: Path, rounds: int) -> Iterator[Figure]:
    with _counted(root, OPEN) as without, _counted(root, CHECKED) as checked:
        ask(checked.port, requests.create_rules(RULES))
        for name, (request, at_once) in CELLS.items():
            plain, checking = (_per_request(each, request, at_once, rounds) for each in (without, checked))
            yield _figure(f"{name}: instructions without / with rules", plain, checking, RIGHTS_AT_LEAST)


def _quotas(root: Path, rounds: int) -> Iterator[Figure]:
    with _counted(root, (*OPEN, *WINDOWS)) as broker:
        for name, (request, at_once) in CELLS.items():
            counts = []
            for quotas in (dict.fromkeys(FAR_AWAY), FAR_AWAY):
                ask(broker.port, requests.alter_quotas(quotas))
                counts.append(_per_request(broker, request, at_once, rounds))
            yield _figure(f"{name}: instructions without a quota / with one", *counts, QUOTAS_AT_LEAST)


@contextmanager
def _counted(root: Path, settings: tuple[str, ...]) -> Iterator[CountedBroker]:
    with new_directory(root) as directory, CountedBroker(directory / "broker", (*settings, *FEW_JOBS)) as broker:
        broker.create_topic(1)
        Load(broker.port, requests.produce(16_384, 0, 1)).run(100)  # something to fetch
        yield broker


def _per_request(broker: CountedBroker, request: bytes, at_once: int, rounds: int) -> list[float]:
    load = Load(broker.port, request, at_once)
    load.run(WARM_REQUESTS)
    return [broker.instructions(lambda: load.run(REQUESTS)) / REQUESTS for _ in range(rounds)]


def _figure(name: str, plain: list[float], checking: list[float], at_least: float) -> Figure:
    ours, theirs = min(checking), min(plain)
    spread = max(statistics.median(each) / min(each) for each in (plain, checking)) - 1
    detail = f"{theirs:,.0f} / {ours:,.0f} a request, the least of {len(plain)}; medians up to {spread:.1%} above"
    return Figure(name, theirs / ours, detail, at_least=at_least)
