"""`python -m bench.plane`: what a data plane without the interpreter would bring, beside the broker and a bare sink.

    python -m bench.plane                          builds the trial, then a table in a minute or two
    python -m bench.plane --rounds 7 --markdown    steadier medians, as docs/performance.md has them

The plane (reactor.pyx) is a trial, not a part of the broker; decision 0070 says what it has and what it lacks. All
servers take turns under the load of `bench.walk`. The bar is that of issue 14: CPU per request of the broker divided by
the plane's, at 16 KB. Exit code 1 when a bar is not reached.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench.plane.build import build
from bench.walk import requests
from bench.walk.figures import Figure, markdown, table
from bench.walk.processes import BareServer, BrokerProcess, Child
from bench.walk.throughput import CONNECTIONS, fetch_once, new_directory, produce_once, warm

SIZES: Final = {"16 KB": 16_384, "256 KB": 262_144}
BARS: Final = {"16 KB": 1.4, "256 KB": None, "fetch": None}
THREADS: Final = 1
ACKS: Final = -1

# (what, side) -> (MB/s, us of CPU per request) of each round
Seen = dict[tuple[str, str], list[tuple[float, float]]]


class PlaneServer(Child):
    """The trial in a process of its own."""

    is_server = True

    def __init__(self, module: Path, directory: Path) -> None:
        super().__init__("bench.plane.server", str(module), str(directory), str(CONNECTIONS), str(THREADS))
        self.port = int(self.line())


def measure(root: Path, module: Path, rounds: int) -> list[Figure]:
    seen: Seen = defaultdict(list)
    for _ in range(rounds):
        with (
            new_directory(root) as ours,
            new_directory(root) as trial,
            BrokerProcess(ours) as broker,
            PlaneServer(module, trial) as plane,
        ):
            broker.create_topic(CONNECTIONS)
            for name, batch_bytes in SIZES.items():
                seen[name, "broker"].append(produce_once(broker, broker.port, batch_bytes, ACKS))
                seen[name, "plane"].append(produce_once(plane, plane.port, batch_bytes, ACKS))
                seen[name, "sink"].append(_bare(root, batch_bytes))
            for side, server, port in (("broker", broker, broker.port), ("plane", plane, plane.port)):
                rates: list[float] = []
                cpus: list[float] = []
                fetch_once(server, port, rates, cpus)
                seen["fetch", side].append((rates[0], cpus[0]))
    return list(_figures(seen))


def _bare(root: Path, batch_bytes: int) -> tuple[float, float]:
    position = requests.records_position(batch_bytes)
    answer = requests.produce_answer().hex()
    with new_directory(root) as directory, BareServer("sink", str(directory), str(position), answer) as bare:
        return produce_once(bare, bare.port, batch_bytes, ACKS)


def _figures(seen: Seen) -> list[Figure]:
    found = []
    for name, bar in BARS.items():
        what = "fetch 1 MB at a time" if name == "fetch" else f"produce {name}, acks=all"
        ours, trial = seen[name, "broker"], seen[name, "plane"]
        ratio = statistics.median(a[1] / b[1] for a, b in zip(ours, trial, strict=True))
        sides = {"broker": ours, "plane": trial, "bare sink": seen.get((name, "sink"), [])}
        cpu = ", ".join(f"{side} {_median(rows, 1):.0f}" for side, rows in sides.items() if rows)
        rate = ", ".join(f"{side} {_median(rows, 0):,.0f}" for side, rows in sides.items() if rows)
        found.append(Figure(f"{what}: CPU of broker / plane", ratio, f"{cpu} us; {rate} MB/s", at_least=bar))
    return found


def _median(rows: list[tuple[float, float]], column: int) -> float:
    return statistics.median(row[column] for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plane", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the sides take turns (default 5)")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-plane-", dir=arguments.root) as directory:
        root = Path(directory)
        module = build(root)
        warm(root)
        figures = measure(root, module, arguments.rounds)
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
