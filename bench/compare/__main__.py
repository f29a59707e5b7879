"""`python -m bench.compare`: the same load on Apache Kafka and on Ottla, in turns, as ratios with bars.

    python -m bench.compare                   the table, in about ten minutes
    python -m bench.compare --quick           a quarter of the load in two rounds, to see whether it works
    python -m bench.compare --only start      one part: produce, consume, latency, start, durable, c-load, share, …
    python -m bench.compare --rounds 7        more rounds, steadier medians
    python -m bench.compare --json            for other programs
    python -m bench.compare --markdown        as docs/performance.md has it

Needs Java; the jars of Apache Kafka are fetched with Maven once (tests/conformance/kafka_jars.py). A ratio is Ottla's
figure divided by Apache Kafka's. Exit code 1 when a bar is not reached, 2 when there is no Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from bench.compare import parts
from bench.compare.c_load import c_load
from bench.compare.durable import durable
from bench.compare.parts import Plan
from bench.compare.shares import share, share_large, share_several
from bench.walk import processes
from bench.walk.figures import Figure, markdown, table
from tests.conformance.kafka_jars import JarsMissing, find_jars

PARTS = {
    "produce": parts.produce,
    "consume": parts.consume,
    "latency": parts.latency,
    "start": parts.start,
    "durable": durable,
    "c-load": c_load,
    "share": share,
    "share-large": share_large,
    "share-several": share_several,
}
QUICK_ROUNDS = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help=f"how often the sides take turns (default 5, quick {QUICK_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a quarter of the load")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of our broker")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()

    processes.broker_settings += arguments.set
    try:
        figures = measure(arguments)
    except JarsMissing as reason:
        print(f"bench.compare {reason}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


def measure(arguments: argparse.Namespace) -> list[Figure]:
    jars = find_jars("4.3")
    chosen = PARTS if arguments.only is None else {arguments.only: PARTS[arguments.only]}
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ottla-compare-", dir=arguments.root) as directory:
        plan = Plan(jars, Path(directory), arguments.rounds or 5)
        if arguments.quick:
            plan = replace(plan.shortened(), rounds=arguments.rounds or QUICK_ROUNDS)
        for name, part in chosen.items():
            if sys.stderr.isatty():
                print(f"measuring {name} …", file=sys.stderr)
            found += part(plan)
    return found


if __name__ == "__main__":
    sys.exit(main())
