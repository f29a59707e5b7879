"""The same on both brokers under a client in C: kcat, which is librdkafka with a file to send or nothing to do.

Its defaults (acks=all) but for what a row names, a topic of four partitions; two of them where one alone would be what
is measured. Lines of a file are records; what they take in kcat is the same for both sides, so a ratio near 1 may be
kcat's limit, and then the CPU of the broker tells more. kcat's start and its end are in the time: some 50 ms.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.compare.brokers import Broker
from bench.compare.parts import PARTITIONS, Plan, Samples, both_up, turns
from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import ask

LIMIT_S: Final = 300.0
LINES: Final = 10_000  # different ones; a file repeats them


class Case(NamedTuple):
    name: str
    record_bytes: int
    records: int
    settings: tuple[str, ...] = ()
    clients: int = 1


CASES: Final = (
    Case("produce 100 B, 2 clients", 100, 4_000_000, clients=2),
    Case("produce 1 KB, 2 clients", 1_000, 600_000, clients=2),
    Case("produce 1 KB, batches of 16 KB", 1_000, 300_000, ("batch.size=16384",)),
    Case("produce 100 B, lz4, 2 clients", 100, 4_000_000, ("compression.codec=lz4",), clients=2),
    Case("produce, one record a request", 100, 60_000, ("batch.num.messages=1", "linger.ms=0")),
)
READ: Final = Case("consume 100 B", 100, 6_000_000)


def c_load(plan: Plan) -> list[Figure]:
    if shutil.which("kcat") is None:
        raise SystemExit("bench.compare --only c-load needs kcat: apt install kcat")
    share = plan.produce_bytes / Plan(plan.jars, plan.root, 1).produce_bytes
    return [_produce(plan, each, share) for each in CASES] + [_consume(plan, share)]


def _produce(plan: Plan, case: Case, share: float) -> Figure:
    lines = _lines(plan.root, case, share)
    rates, cpu = Samples(), Samples()

    def turn(broker: Broker, topic: str) -> None:
        ask(broker.port, requests.create_topic(PARTITIONS, topic))
        _measured(broker, case, share, rates, cpu, ("-P", "-t", topic, "-l", str(lines)))

    with both_up(plan) as brokers:
        for broker in brokers:
            turn(broker, "warm")
        rates, cpu = Samples(), Samples()
        turns(plan, brokers, turn)
    lines.unlink()
    return _figure(case, rates, cpu, at_least=1.3)


def _consume(plan: Plan, share: float) -> Figure:
    lines = _lines(plan.root, READ, share)
    rates, cpu = Samples(), Samples()

    def turn(broker: Broker, _: str) -> None:
        _measured(broker, READ, share, rates, cpu, ("-C", "-t", "read", "-o", "beginning", "-e", "-q", "-f", ""))

    with both_up(plan) as brokers:
        for broker in brokers:
            ask(broker.port, requests.create_topic(PARTITIONS, "read"))
            _kcat(broker, READ, ("-P", "-t", "read", "-l", str(lines)))
            turn(broker, "warm")
        rates, cpu = Samples(), Samples()
        turns(plan, brokers, turn)
    lines.unlink()
    return _figure(READ, rates, cpu, at_least=1.0)


def _measured(
    broker: Broker, case: Case, share: float, rates: Samples, cpu: Samples, arguments: tuple[str, ...]
) -> None:
    before_s, started = broker.cpu_s, time.perf_counter()
    _kcat(broker, case, arguments)
    took_s, records = time.perf_counter() - started, case.records * share
    rates.add(broker, records / took_s / 1e3)
    cpu.add(broker, (broker.cpu_s - before_s) * 1e6 / records)


def _kcat(broker: Broker, case: Case, arguments: tuple[str, ...]) -> None:
    """Run as many as the case has, until all have ended."""
    given = [part for each in case.settings for part in ("-X", each)]
    command = ["kcat", "-b", f"127.0.0.1:{broker.port}", *given, *arguments]
    nowhere = subprocess.DEVNULL
    running = [subprocess.Popen(command, stdout=nowhere, stderr=nowhere) for _ in range(case.clients)]
    codes = [each.wait(LIMIT_S) for each in running]
    if any(codes):
        raise SystemExit(f"a kcat failed: {' '.join(command)}")


def _lines(root: Path, case: Case, share: float) -> Path:
    """A file with so many lines of that size, or the share of each client."""
    some = [base64.b64encode(os.urandom(case.record_bytes))[: case.record_bytes] + b"\n" for _ in range(LINES)]
    path, block = root / "lines", b"".join(some)
    with path.open("wb") as file:
        for _ in range(max(1, int(case.records * share) // LINES // case.clients)):
            file.write(block)
    return path


def _figure(case: Case, rates: Samples, cpu: Samples, at_least: float) -> Figure:
    detail = f"{rates.text()} k records/s; CPU of the broker {cpu.text('.2f')} us per record; {rates.spread()}"
    return Figure(f"kcat: {case.name}", rates.ratio(), detail, at_least=at_least)
