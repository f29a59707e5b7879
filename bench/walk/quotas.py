"""What a quota costs that nobody reaches: the same load with and without one, on the same broker, taking turns.

Compared is the broker's CPU time per byte, which is what limits a loop that is always busy: it depends less on what
else runs on the machine than bytes per second do.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Final

from bench.walk import requests
from bench.walk.figures import Figure
from bench.walk.processes import BrokerProcess, ask, load
from bench.walk.throughput import CONNECTIONS, FETCH_BYTES, SECONDS, WARM_S, new_directory, produce_task

TURNS: Final = 4
FAR_AWAY: Final = {"producer_byte_rate": 1e14, "consumer_byte_rate": 1e14, "request_percentage": 1e9}
LOADS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "produce 1 KB, acks=1": ("produce", produce_task(1_024, 1)),
    "produce 16 KB, acks=1": ("produce", produce_task(16_384, 1)),
    "produce 16 KB, acks=all": ("produce", produce_task(16_384, -1)),
    "fetch 1 MB": ("fetch", {"fetch_bytes": FETCH_BYTES, "partition": 0, "warm_s": WARM_S, "seconds": SECONDS}),
}


def quotas(root: Path, rounds: int) -> list[Figure]:
    ratios: dict[str, list[float]] = {name: [] for name in LOADS}
    for _ in range(rounds):
        with new_directory(root) as directory, BrokerProcess(directory) as broker:
            broker.create_topic(CONNECTIONS)
            load("produce", broker.port, **produce_task(16_384, 1))
            for name, (kind, task) in LOADS.items():
                costs: dict[bool, list[float]] = {True: [], False: []}
                for turn in range(2 * TURNS):
                    is_limited = turn % 4 in (1, 2)
                    ask(broker.port, requests.alter_quotas(FAR_AWAY if is_limited else dict.fromkeys(FAR_AWAY)))
                    before_s = broker.cpu_s
                    seen = load(kind, broker.port, **task)
                    costs[is_limited].append((broker.cpu_s - before_s) / (seen["bytes"] / seen["seconds"]))
                ratios[name].append(statistics.median(costs[False]) / statistics.median(costs[True]))
    return [
        Figure(f"{name}: without a quota / with one far away, CPU", statistics.median(each), "", at_least=0.97)
        for name, each in ratios.items()
    ]
