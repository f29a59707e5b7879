"""A broker with 10,000 topics: how long its lists take, and how long others wait meanwhile."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from bench.console.brokers import ConsoleBroker, open_pages
from bench.walk.figures import Figure
from bench.walk.processes import load
from bench.walk.throughput import new_directory

TOPICS: Final = 10_000
AT_ONCE: Final = 1_000
CREATE_LIMIT_S: Final = 300.0
ASKED: Final = {
    "a page of 100 topics": "/api/topics?limit=100",
    "a page of 100, largest first": "/api/topics?limit=100&sort=size_bytes",
    "100 of those with 99 in their names": "/api/topics?limit=100&contains=99",
    "all 10,000 topics in one answer": "/api/topics?limit=10000",
    "the overview": "/api/overview",
    "the brokers": "/api/brokers",
    "the live picture": "/api/flow",
    "the findings": "/api/findings",
}
PACE: Final = {"batch_bytes": 0, "acks": -1, "rate": 500, "warm_s": 0.3, "seconds": 3.0}


def ten_thousand(root: Path, turns: int) -> list[Figure]:
    with new_directory(root) as directory, ConsoleBroker(directory) as broker:
        broker.create_topic(1)
        create(broker, TOPICS)
        figures = [_asked(broker, name, path, turns) for name, path in ASKED.items()]
        waits_ms = []
        for _ in range(max(2, turns // 2)):
            closed = load("pace", broker.port, **PACE)["times_s"]
            with open_pages(broker, ("overview", "flow", "topics")):
                opened = load("pace", broker.port, **PACE)["times_s"]
            waits_ms.append((_p99_ms(opened), _p99_ms(closed), max(opened) * 1e3))
    more_ms = statistics.median(on - off for on, off, _ in waits_ms)
    detail = f"{waits_ms[0][0]:.2f} / {waits_ms[0][1]:.2f} ms at first; the longest of all {max(waits_ms)[2]:.1f} ms"
    return [
        *figures,
        Figure("p99 of produce beside 10,000 topics, open minus closed", more_ms, detail, " ms", at_most=0.2),
    ]


def create(broker: ConsoleBroker, count: int) -> None:
    import ottla

    with ottla.Admin(bootstrap_servers=f"127.0.0.1:{broker.port}") as admin:
        for first in range(0, count, AT_ONCE):
            names = [ottla.NewTopic(f"topic-{number:05}", 1) for number in range(first, first + AT_ONCE)]
            admin.create_topics(names, timeout=CREATE_LIMIT_S)


def _asked(broker: ConsoleBroker, name: str, path: str, turns: int) -> Figure:
    broker.get(path)
    before_s = broker.cpu_s
    times_ms = [broker.get(path)[0] * 1e3 for _ in range(turns)]
    cpu_ms = (broker.cpu_s - before_s) / turns * 1e3
    detail = f"with 10,000 topics; at most {max(times_ms):.0f} ms; CPU {cpu_ms:.0f} ms"
    return Figure(name, statistics.median(times_ms), detail, " ms", at_most=300.0)


def _p99_ms(times_s: list[float]) -> float:
    return sorted(times_s)[int(0.99 * len(times_s))] * 1e3
