"""Four broker processes of one command (`ottla broker start --brokers 4`) against one: CPU per megabyte, and the rate.

1. The same canned requests on the same number of connections, each to the leader of its partition: both sides see
   requests of the same size, one partition in each. What differs is that four processes share the work. Sixteen
   connections, as of four clients with one to every broker: a loop with a single connection costs more per request.
2. CPU is that of every process of the command: brokers and supervisor. The load's is not counted.
3. A second load is a real client (confluent-kafka, its defaults): with four brokers it sends four requests where one
   broker gets one, because it has one connection to each leader. That is what more brokers cost a client's batches; the
   figure has no bar.
4. A machine with two cores cannot show what four cores would give: the rate here is what the load leaves.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import TICKS_PER_S, BrokerProcess, Child, load
from bench.walk.throughput import new_directory

import ottla
from ottla.cli.brokers.status import read_status

BROKERS = 4
CONNECTIONS = 16
SECONDS = 1.5
WARM_S = 0.3
LIMIT_S = 60.0
CELLS = (("produce 16 KB, acks=all", 16_384), ("produce 256 KB, acks=all", 262_144))
CLIENT_RECORDS = 60_000
CLIENT_VALUE = bytes(1_000)


class Several(Child):
    """The brokers of one command, as one thing to measure."""

    is_server = True

    def __init__(self, directory: Path) -> None:
        settings = ("ottla.durability=replicated", "ottla.admin.listener=", "ottla.log.level=WARNING")
        pairs = [f"--set={each}" for each in settings]
        where = ["--data", str(directory), "--listen", "127.0.0.1:0", "--brokers", str(BROKERS)]
        super().__init__("ottla", "broker", "start", *where, *pairs)
        while "brokers are ready at" not in self.line():
            pass
        status = read_status(directory)
        assert status is not None, "it has just said that it is ready"
        self.bootstrap_servers = status.bootstrap_servers
        self.pids = [each.pid for each in status.brokers if each.pid is not None]

    @property
    def cpu_s(self) -> float:
        return sum(_cpu_s(pid) for pid in [self._process.pid, *self.pids])


class One(BrokerProcess):
    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def four_against_one(directory: Path, rounds: int) -> list[Figure]:
    figures = []
    with _both(directory) as sides:
        for name, batch_bytes in CELLS:
            pairs = [[_canned(side, batch_bytes) for side in _turn(sides, number)] for number in range(rounds + 1)]
            figures.append(_figure(name, _in_order(pairs)[1:], at_most=1.1))  # the first round warms up
        pairs = [[_client(side) for side in _turn(sides, number)] for number in range(rounds + 1)]
        figures.append(_figure("confluent-kafka's defaults, 1 kB", _in_order(pairs)[1:], at_most=None))
    return figures


@contextmanager
def _both(root: Path) -> Iterator[tuple[Any, Any]]:
    with (
        new_directory(root) as one_directory,
        new_directory(root) as several_directory,
        One(one_directory) as one,
        Several(several_directory) as several,
    ):
        for side in (one, several):
            with ottla.Admin(bootstrap_servers=side.bootstrap_servers) as admin:
                admin.create_topics([ottla.NewTopic(requests.TOPIC, BROKERS, 1)], timeout=LIMIT_S)
        yield one, several


def _turn(sides: tuple[Any, Any], number: int) -> tuple[Any, ...]:
    return sides[::-1] if number % 2 else sides


def _in_order(pairs: list[list[tuple[float, float]]]) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """(one, several), whoever went first."""
    return [(each[1], each[0]) if number % 2 else (each[0], each[1]) for number, each in enumerate(pairs)]


def _figure(name: str, pairs: list[tuple[tuple[float, float], tuple[float, float]]], at_most: float | None) -> Figure:
    ratios = sorted(several[1] / one[1] for one, several in pairs)
    rates = [statistics.median(side[0] for side in column) for column in zip(*pairs, strict=True)]
    cpus = [statistics.median(side[1] for side in column) for column in zip(*pairs, strict=True)]
    detail = (
        f"CPU {cpus[1]:,.0f} / {cpus[0]:,.0f} us per MB ({ratios[0]:.2f} to {ratios[-1]:.2f}); "
        f"{rates[1]:,.0f} / {rates[0]:,.0f} MB/s; {os.cpu_count()} cores"
    )
    return Figure(f"{BROKERS} processes / one, {name}: CPU per MB", statistics.median(ratios), detail, at_most=at_most)


def _canned(side: Any, batch_bytes: int) -> tuple[float, float]:
    """MB/s, and microseconds of CPU per MB."""
    ports = _leader_ports(side.bootstrap_servers)
    before = side.cpu_s
    seen = load(
        "produce",
        ports[0],
        ports=ports,
        batch_bytes=batch_bytes,
        acks=-1,
        connections=CONNECTIONS,
        partitions=BROKERS,
        in_flight=5,
        warm_s=WARM_S,
        seconds=SECONDS,
    )
    cpu_s = (side.cpu_s - before) * SECONDS / (SECONDS + WARM_S)
    return seen["bytes"] / seen["seconds"] / 1e6, cpu_s / seen["bytes"] * 1e12


def _leader_ports(bootstrap_servers: str) -> list[int]:
    """The port of each partition's leader."""
    with ottla.Admin(bootstrap_servers=bootstrap_servers) as admin:
        ports = {each.id: each.address.port for each in admin.describe_cluster(timeout=LIMIT_S).nodes}
        found = admin.describe_topics([requests.TOPIC], timeout=LIMIT_S)[requests.TOPIC].partitions
    return [ports[each.leader] for each in found if each.leader is not None]


def _client(side: Any) -> tuple[float, float]:
    before, began = side.cpu_s, time.perf_counter()
    producer = confluent_kafka.Producer({"bootstrap.servers": side.bootstrap_servers})
    for number in range(CLIENT_RECORDS):
        while True:
            try:
                producer.produce(requests.TOPIC, CLIENT_VALUE, partition=number % BROKERS)
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(LIMIT_S)
    seconds, size_bytes = time.perf_counter() - began, CLIENT_RECORDS * len(CLIENT_VALUE)
    return size_bytes / seconds / 1e6, (side.cpu_s - before) / size_bytes * 1e12
