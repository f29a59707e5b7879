"""Produce beside an open console: throughput, CPU and p99 in turns; and the CPU that each page takes by itself.

1. The rate of a broker swings by more than a console costs, on any machine that is shared. So the CPU of the broker
   while it serves pages and nothing else is measured, too: FASTER times as often as a page asks, divided by it. That
   share of a core is what a broker that uses its core to the full has less for records.
2. Turns: first without, then with the pages, then the other way round. What is shown is the median over turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from bench.console.brokers import ConsoleBroker, open_pages
from bench.console.polling import PAGES
from bench.walk.figures import Figure
from bench.walk.processes import load
from bench.walk.throughput import CONNECTIONS, new_directory, produce_task

OPEN: Final = ("overview", "flow")
"""The pages with live charts; both are open at once."""
SECONDS: Final = 2.0
PACE: Final[dict[str, Any]] = {"batch_bytes": 0, "acks": -1, "rate": 500, "warm_s": 0.3, "seconds": 3.0}
FASTER: Final = 25


def rates(root: Path, turns: int) -> list[Figure]:
    """Throughput of produce, with and without open pages."""
    found: dict[bool, list[float]] = {False: [], True: []}
    with _warm_broker(root) as broker:
        for is_open in _turns(broker, turns):
            seen = load("produce", broker.port, **produce_task(16_384, 1, SECONDS))
            found[is_open].append(seen["bytes"] / seen["seconds"] / 1e6)
    ratio = statistics.median(on / off for off, on in zip(found[False], found[True], strict=True))
    detail = f"{statistics.median(found[True]):,.0f} / {statistics.median(found[False]):,.0f} MB/s, {turns} turns"
    return [Figure(f"produce 16 KB, {' and '.join(OPEN)} open / closed", ratio, detail, at_least=0.97)]


def latencies(root: Path, turns: int) -> list[Figure]:
    """p99 of produce, with and without open pages: of all requests of a side, and turn by turn."""
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    with _warm_broker(root) as broker:
        for is_open in _turns(broker, turns):
            found[is_open].append(load("pace", broker.port, **PACE)["times_s"])
    opened, closed = (_p99_ms([time_s for turn in found[side] for time_s in turn]) for side in (True, False))
    paired = statistics.median(_p99_ms(on) - _p99_ms(off) for off, on in zip(found[False], found[True], strict=True))
    detail = f"{opened:.2f} / {closed:.2f} ms, {PACE['rate']} a second; median of {turns} turns {paired:+.2f} ms"
    return [Figure("p99 of produce, open minus closed", opened - closed, detail, " ms", at_most=0.2)]


def _turns(broker: ConsoleBroker, turns: int) -> Iterator[bool]:
    """Both sides, who begins changes; while True is out, the pages are open."""
    for turn in range(turns):
        for is_open in (False, True) if turn % 2 else (True, False):
            with open_pages(broker, OPEN) if is_open else nullcontext():
                yield is_open


def _p99_ms(times_s: list[float]) -> float:
    return sorted(times_s)[int(0.99 * len(times_s))] * 1e3


def of_pages(root: Path, turns: int) -> list[Figure]:
    """The share of a core that a page takes while it is open."""
    with _warm_broker(root) as broker:
        idle = _share(broker, (), turns)
        shares = {name: max(0.0, _share(broker, (name,), turns) - idle) / FASTER for name in PAGES}
        rss_mb = broker.rss_mb
    with new_directory(root) as directory, ConsoleBroker(directory) as plain:
        plain.create_topic(CONNECTIONS)
        load("produce", plain.port, **produce_task(16_384, 1, SECONDS))
        plain_mb = plain.rss_mb
    figures = [
        Figure(f"CPU of the broker while {name} is open", 100 * share, f"of one core; idle {100 * idle:.2f} %", " %")
        for name, share in shares.items()
    ]
    both = 100 * sum(shares[name] for name in OPEN)
    return [
        *figures,
        Figure(f"the same, {' and '.join(OPEN)} together", both, "of one core", " %", at_most=3.0),
        Figure("memory of the console", rss_mb - plain_mb, f"{rss_mb:.0f} / {plain_mb:.0f} MB RSS", " MB"),
    ]


@contextmanager
def _warm_broker(root: Path) -> Iterator[ConsoleBroker]:
    with new_directory(root) as directory, ConsoleBroker(directory) as broker:
        broker.create_topic(CONNECTIONS)
        for path in ("/", "/api/session"):
            broker.get(path)
        load("produce", broker.port, **produce_task(16_384, 1, SECONDS))
        yield broker


def _share(broker: ConsoleBroker, pages: Sequence[str], turns: int) -> float:
    """CPU seconds a second; pages ask FASTER times as often."""
    seconds = max(2.0, turns / 2)
    with open_pages(broker, pages, FASTER) if pages else nullcontext():
        before_s, begun_s = broker.cpu_s, time.perf_counter()
        time.sleep(seconds)
        return (broker.cpu_s - before_s) / (time.perf_counter() - begun_s)
