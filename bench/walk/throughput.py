"""Bytes per second against the ceilings: produce against a bare sink, fetch against a bare sendfile server.

Every round has a new broker and a new bare server in new directories, and both sides of a row are measured one right
after the other. What is compared is the median of the ratios of the rounds. The directories are removed after every
round: the pages they took are warm for the next.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import BareServer, BrokerProcess, Child, load

CONNECTIONS: Final = 4
SECONDS: Final = 0.7
WARM_S: Final = 0.2
FETCH_BYTES: Final = 1 << 20
CELLS: Final = (
    ("produce 16 KB, acks=1: broker / bare sink", 16_384, 1, 0.65),
    ("produce 16 KB, acks=all: broker / bare sink", 16_384, -1, 0.65),
    ("produce 256 KB, acks=1: broker / bare sink", 262_144, 1, 0.75),
    ("produce 256 KB, acks=all: broker / bare sink", 262_144, -1, 0.75),
)


class Samples:
    """Rates of both sides, round by round."""

    def __init__(self) -> None:
        self.ours: list[float] = []
        self.theirs: list[float] = []
        self.cpu_ours: list[float] = []
        self.cpu_theirs: list[float] = []

    def figure(self, name: str, at_least: float) -> Figure:
        ratio = statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        cpu = f"CPU {statistics.median(self.cpu_ours):.0f} / {statistics.median(self.cpu_theirs):.0f} us per request"
        return Figure(name, ratio, f"{ours:,.0f} / {theirs:,.0f} MB/s; {cpu}", at_least=at_least)


def produce(root: Path, rounds: int) -> list[Figure]:
    samples: dict[str, Samples] = defaultdict(Samples)
    for number in range(rounds):
        with new_directory(root) as directory, BrokerProcess(directory) as broker:
            broker.create_topic(CONNECTIONS)
            for name, batch_bytes, acks, _ in CELLS:
                sides = [True, False] if number % 2 else [False, True]
                for is_ours in sides:
                    _add_sample(root, broker if is_ours else None, batch_bytes, acks, samples[name])
    return [samples[name].figure(name, bar) for name, _, _, bar in CELLS]


def _add_sample(root: Path, broker: BrokerProcess | None, batch_bytes: int, acks: int, samples: Samples) -> None:
    if broker is not None:
        rate, cpu_us = produce_once(broker, broker.port, batch_bytes, acks)
        samples.ours.append(rate)
        samples.cpu_ours.append(cpu_us)
        return
    position = requests.records_position(batch_bytes)
    with (
        new_directory(root) as directory,
        BareServer("sink", str(directory), str(position), requests.produce_answer().hex()) as bare,
    ):
        rate, cpu_us = produce_once(bare, bare.port, batch_bytes, acks)
    samples.theirs.append(rate)
    samples.cpu_theirs.append(cpu_us)


def produce_once(server: Child, port: int, batch_bytes: int, acks: int) -> tuple[float, float]:
    """MB/s, and microseconds of the server's CPU per request."""
    before = server.cpu_s
    seen = load("produce", port, **produce_task(batch_bytes, acks))
    cpu_s = server.cpu_s - before
    share = SECONDS / (SECONDS + WARM_S)
    return seen["bytes"] / seen["seconds"] / 1e6, cpu_s * share / sum(seen["answers"]) * 1e6


def produce_task(batch_bytes: int, acks: int, seconds: float = SECONDS) -> dict[str, Any]:
    return {
        "batch_bytes": batch_bytes,
        "acks": acks,
        "connections": CONNECTIONS,
        "partitions": CONNECTIONS,
        "in_flight": 5,
        "warm_s": WARM_S,
        "seconds": seconds,
    }


def fetch(root: Path, rounds: int) -> list[Figure]:
    samples = Samples()
    with new_directory(root) as directory, BrokerProcess(directory) as broker:
        broker.create_topic(CONNECTIONS)
        load("produce", broker.port, **produce_task(16_384, 1))
        segment = next(directory.glob(f"{requests.TOPIC}-0/*.log"))
        with BareServer("sendfile", str(segment), str(FETCH_BYTES)) as bare:
            for _ in range(rounds):
                fetch_once(broker, broker.port, samples.ours, samples.cpu_ours)
                fetch_once(bare, bare.port, samples.theirs, samples.cpu_theirs)
    return [samples.figure("fetch 1 MB at a time, 1 consumer: broker / bare sendfile", 0.7)]


def fetch_once(server: Child, port: int, rates: list[float], cpus: list[float]) -> None:
    before = server.cpu_s
    seen = load("fetch", port, fetch_bytes=FETCH_BYTES, partition=0, warm_s=WARM_S, seconds=SECONDS)
    share = SECONDS / (SECONDS + WARM_S)
    rates.append(seen["bytes"] / seen["seconds"] / 1e6)
    cpus.append((server.cpu_s - before) * share / seen["bytes"] * FETCH_BYTES * 1e6)


@contextmanager
def new_directory(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=root) as found:
        yield Path(found)


def warm(root: Path, size_bytes: int = 1 << 30) -> None:
    """Write and remove a big file: memory that the host has taken back costs more than any broker when touched."""
    with tempfile.TemporaryFile(dir=root) as file:
        block = bytes(1 << 20)
        for _ in range(size_bytes // len(block)):
            file.write(block)
