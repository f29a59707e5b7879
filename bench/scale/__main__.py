"""`python -m bench.scale`: many partitions, connections, groups, consumers, bytes; on Apache Kafka and Ottla in turns.

    python -m bench.scale                          the table, in about half an hour
    python -m bench.scale --only partitions        one part: partitions, connections, groups, rebalance, idle-group,
                                                   members, topic, consumers
    python -m bench.scale --side ottla             our side alone, without ratios
    python -m bench.scale --partitions 300 --connections 200 --groups 50 --gigabytes 0.1 --idle 1     a short sample
    python -m bench.scale --rounds 3               medians of three turns of each side
    python -m bench.scale --json / --markdown      for other programs, and as docs/performance.md has it

Needs Java; the jars of Apache Kafka are fetched with Maven once (tests/conformance/kafka_jars.py). A ratio is Ottla's
figure divided by Apache Kafka's. Exit code 1 when a bar is not reached, 2 when there is no Apache Kafka.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.scale import parts
from bench.scale.parts import GIBIBYTE, Sizes
from bench.scale.sheet import Sheet
from bench.scale.sides import KafkaSide, OttlaSide, Side
from bench.walk import processes
from bench.walk.figures import Figure, markdown, table
from bench.walk.throughput import new_directory
from tests.conformance.kafka_jars import JarsMissing, find_jars

PARTS: dict[str, Callable[[Side, Sheet, Sizes], None]] = {
    "partitions": parts.partitions,
    "connections": parts.connections,
    "groups": parts.groups,
    "rebalance": parts.rebalance,
    "idle-group": parts.idle_group,
    "members": parts.members,
    "topic": parts.topic,
    "consumers": parts.consumers,
}
BOTH = ("kafka", "ottla")


def main() -> int:
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # no broker outlives the bench
    processes.broker_settings += arguments.set
    sides = BOTH if arguments.side is None else (arguments.side,)
    chosen = list(PARTS) if arguments.only is None else [arguments.only]
    try:
        figures = measure(_sizes(arguments), chosen, sides, arguments.rounds, arguments.root)
    except JarsMissing as reason:
        print(f"bench.scale {reason}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__.splitlines()[0])
    default = Sizes()
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--side", choices=BOTH, help="one side alone")
    parser.add_argument("--rounds", type=int, default=1, help="how often the sides take turns (default 1)")
    parser.add_argument("--partitions", type=int, default=default.partitions, help="of one broker (default 10,000)")
    parser.add_argument("--connections", type=int, default=default.connections, help="idle ones (default 5,000)")
    parser.add_argument("--groups", type=int, default=default.groups, help="of one member each (default 1,000)")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of the large topic (default 10)")
    parser.add_argument("--consumers", type=int, default=default.consumers, help="of one topic (default 100)")
    parser.add_argument("--members", type=int, default=default.members, help="of groups of ten (default 10,000)")
    parser.add_argument("--idle", type=float, default=default.idle_s, help="seconds of waiting (default 20)")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of our broker")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    return parser


def _sizes(arguments: argparse.Namespace) -> Sizes:
    size_bytes = int(arguments.gigabytes * GIBIBYTE)
    counts = arguments.partitions, arguments.connections, arguments.groups, size_bytes, arguments.consumers
    return Sizes(*counts, members=arguments.members, idle_s=arguments.idle)


def measure(sizes: Sizes, chosen: Sequence[str], sides: Sequence[str], rounds: int, root: Path | None) -> list[Figure]:
    sheet = Sheet()
    with tempfile.TemporaryDirectory(prefix="ottla-scale-", dir=root) as scratch:
        for name in chosen:
            for number in range(rounds):
                for side in sides[:: 1 if number % 2 else -1]:
                    _progress(f"{name}, {side}")
                    with new_directory(Path(scratch)) as directory:
                        PARTS[name](_side(side, directory), sheet, sizes)
    return sheet.figures()


def _side(name: str, directory: Path) -> Side:
    return OttlaSide(directory) if name == "ottla" else KafkaSide(find_jars("4.3"), directory)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"measuring {text} …", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
