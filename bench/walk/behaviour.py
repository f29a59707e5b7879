"""What a broker is like to live with: how fast it answers and starts, what it takes, whether it is fair.

Latency is compared with the bare sink at the same pace, so that a noisy machine can be told from a slow broker.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.walk import housework, requests
from bench.walk.figures import Figure
from bench.walk.processes import ENVIRONMENT, ROOT, BareServer, BrokerProcess, Child, free_port, load, start_load
from bench.walk.throughput import CONNECTIONS, FETCH_BYTES, WARM_S, new_directory, produce_task

RATE: Final = 1_000
IDLE_CONNECTIONS: Final = 1_000
STARTS: Final = 5

# In a process of its own, because a fixture's first start is what a test run pays.
FIXTURE: Final = """
import time
from ottla.testing.broker import KafkaBroker
from bench.walk import requests
from bench.walk.processes import ask
started = time.perf_counter()
with KafkaBroker() as broker:
    ask(int(broker.bootstrap_servers.rpartition(":")[2]), requests.api_versions())
    print(time.perf_counter() - started)
"""


def latency(root: Path, rounds: int) -> list[Figure]:
    task = {"batch_bytes": 0, "acks": -1, "rate": RATE, "warm_s": 0.2, "seconds": 1.5}
    ours: list[float] = []
    theirs: list[float] = []
    position = requests.records_position(0)
    with (
        new_directory(root) as directory,
        new_directory(root) as other,
        BrokerProcess(directory) as broker,
        BareServer("sink", str(other), str(position), requests.produce_answer().hex()) as bare,
    ):
        broker.create_topic(1)
        for _ in range(rounds):
            ours += load("pace", broker.port, **task)["times_s"]
            theirs += load("pace", bare.port, **task)["times_s"]
    p99s = _percentile_ms(ours, 0.99), _percentile_ms(theirs, 0.99)
    p50s = _percentile_ms(ours, 0.5), _percentile_ms(theirs, 0.5)
    detail = f"bare sink {p99s[1]:.2f} ms, {len(ours):,} requests"
    return [
        Figure("p99 of produce at 1,000 a second, acks=all", p99s[0], detail, " ms", at_most=1.5),
        Figure("p50 of the same", p50s[0], f"bare sink {p50s[1]:.2f} ms", " ms"),
    ]


def _percentile_ms(times_s: list[float], share: float) -> float:
    return sorted(times_s)[int(share * len(times_s))] * 1e3


def start(root: Path, rounds: int) -> list[Figure]:
    processes, cpus, fixtures = [], [], []
    for number in range(1 + STARTS):
        with new_directory(root) as directory, BrokerProcess(directory) as broker:
            process_s, cpu_s = broker.answered_s, broker.start_cpu_s
        fixture_s = float(
            subprocess.run(
                [sys.executable, "-c", FIXTURE], cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True
            ).stdout
        )
        if number:  # the first of each writes its bytecode
            processes.append(process_s)
            cpus.append(cpu_s)
            fixtures.append(fixture_s)
    return [
        Figure(
            "start to first answer, process",
            statistics.median(processes),
            f"{_all(processes)}; CPU {statistics.median(cpus):.2f} s",
            " s",
            at_most=0.35,
        ),
        Figure("start to first answer, fixture", statistics.median(fixtures), _all(fixtures), " s", at_most=0.1),
    ]


def _all(times_s: list[float]) -> str:
    return "of " + ", ".join(f"{each:.3f}" for each in sorted(times_s))


def memory(root: Path, rounds: int) -> list[Figure]:
    with new_directory(root) as directory, BrokerProcess(directory) as broker:
        idle_mb = broker.rss_mb
        with start_load("idle", broker.port, connections=IDLE_CONNECTIONS) as held:
            held.line()
            added_mb = broker.rss_mb - idle_mb
    return [
        Figure("idle memory (RSS)", idle_mb, "after the first answer", " MB", at_most=60),
        Figure("1,000 idle connections add", added_mb, "each has asked ApiVersions", " MB", at_most=24),
    ]


def fairness(root: Path, rounds: int) -> list[Figure]:
    task = {**produce_task(0, -1, 3.0), "connections": 1_000, "in_flight": 1, "warm_s": 1.0}
    with new_directory(root) as directory, BrokerProcess(directory) as broker:
        broker.create_topic(CONNECTIONS)
        seen = load("produce", broker.port, **task)
    counts = seen["answers"]
    mean = statistics.mean(counts)
    detail = f"{sum(counts) / seen['seconds']:,.0f} requests/s, slowest {min(counts)}, mean {mean:.0f}"
    return [Figure("1,000 busy connections: slowest / mean", min(counts) / mean, detail, at_least=0.3)]


def beside_consumers(root: Path, rounds: int) -> list[Figure]:
    ratios, alone_rates, beside_rates, read_rates = [], [], [], []
    for _ in range(max(1, rounds // 2)):
        with new_directory(root) as directory, BrokerProcess(directory) as broker:
            broker.create_topic(CONNECTIONS)
            alone = load("produce", broker.port, **produce_task(16_384, -1, 1.0))
            task = {"fetch_bytes": FETCH_BYTES, "warm_s": WARM_S, "seconds": 2.5}
            with (
                start_load("fetch", broker.port, partition=0, **task) as one,
                start_load("fetch", broker.port, partition=1, **task) as two,
            ):
                beside = load("produce", broker.port, **{**produce_task(16_384, -1, 1.0), "warm_s": 0.7})
                read_rates.append(sum(_rate(child.line()) for child in (one, two)))
        alone_rates.append(alone["bytes"] / alone["seconds"] / 1e6)
        beside_rates.append(beside["bytes"] / beside["seconds"] / 1e6)
        ratios.append(beside_rates[-1] / alone_rates[-1])
    detail = (
        f"{statistics.median(beside_rates):,.0f} / {statistics.median(alone_rates):,.0f} MB/s, "
        f"while {statistics.median(read_rates):,.0f} MB/s are read"
    )
    return [Figure("produce 16 KB beside two consumers / alone", statistics.median(ratios), detail, at_least=0.3)]


def beside_housework(root: Path, rounds: int) -> list[Figure]:
    """Producers beside a compaction, a scrape of the metrics and an admin client (housework.py)."""
    ratios, p50s, rates, done = [], [], [], {}
    for _ in range(max(1, rounds // 2)):
        admin_port = free_port()
        settings = (f"ottla.admin.listener=127.0.0.1:{admin_port}", "log.cleaner.backoff.ms=50")
        with new_directory(root) as directory, BrokerProcess(directory, settings) as broker:
            broker.create_topic(CONNECTIONS)
            alone = _rate_and_p50(broker.port)
            with Child("bench.walk.housework", str(broker.port), str(admin_port)) as work:
                work.line()
                beside = _rate_and_p50(broker.port)
                done = work.end()
            _check_compacted(directory, done)
        ratios.append(beside[0] / alone[0])
        p50s.append(beside[1] / alone[1])
        rates.append((beside[0], alone[0], beside[1], alone[1]))
    there, alone_rate, there_ms, alone_ms = (statistics.median(each) for each in zip(*rates, strict=True))
    did = ", ".join(f"{count} {name}" for name, count in done.items())
    return [
        Figure(
            "produce 16 KB beside a compaction, scrapes and an admin client / alone",
            statistics.median(ratios),
            f"{there:,.0f} / {alone_rate:,.0f} MB/s, beside {did}",
            at_least=0.6,
        ),
        Figure(
            "p50 of produce at 1,000 a second, beside the same / alone",
            statistics.median(p50s),
            f"{there_ms:.2f} / {alone_ms:.2f} ms",
            at_most=2.0,
        ),
    ]


def _rate_and_p50(port: int) -> tuple[float, float]:
    seen = load("produce", port, **produce_task(16_384, -1, 1.5))
    task = {"batch_bytes": 0, "acks": -1, "rate": RATE, "warm_s": 0.2, "seconds": 1.5}
    return seen["bytes"] / seen["seconds"] / 1e6, _percentile_ms(load("pace", port, **task)["times_s"], 0.5)


def _check_compacted(directory: Path, done: dict[str, int]) -> None:
    written = done["batches"] * housework.BATCH_BYTES
    left = sum(path.stat().st_size for path in directory.glob(f"{housework.TOPIC}-0/*.log"))
    if left > written * 0.7:
        raise RuntimeError(f"no compaction was at work: {left} of {written} bytes are left")


def _rate(line: str) -> float:
    seen = json.loads(line)
    return float(seen["bytes"] / seen["seconds"] / 1e6)
