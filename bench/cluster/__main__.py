"""`python -m bench.cluster`: several brokers as processes: what copies cost, how fast leaders move, what sharing costs.

    python -m bench.cluster                    the table
    python -m bench.cluster --only failover    one part; --help lists them
    python -m bench.cluster --rounds 5         more rounds, steadier medians
    python -m bench.cluster --markdown         as docs/performance.md has it

Exit code 1 when a bar is not reached. Parts `kafka`, `lost-node` and `many-partitions` need Java and the jars of Apache
Kafka (tests/conformance/kafka_jars.py). Data goes to a directory that is removed, under --root.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.cluster import parts, quorum
from bench.cluster.against_kafka import produce_against_kafka
from bench.cluster.several import four_against_one
from bench.walk.figures import Figure, markdown, table

PARTS = {
    "produce": parts.produce,
    "failover": parts.failover,
    "many": parts.many_partitions,
    "several": four_against_one,
    "kafka": produce_against_kafka,
    "lost-node": quorum.lost_node,
    "many-partitions": quorum.many_partitions,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often the sides take turns (default 3)")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()

    figures: list[Figure] = []
    for name, part in PARTS.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="ottla-cluster-", dir=arguments.root) as directory:
                figures += part(Path(directory), arguments.rounds)
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
