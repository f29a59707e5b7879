"""`python -m bench.spark`: our source and sink beside Spark's own connector for Kafka, in turns, as ratios.

    python -m bench.spark                     the table, in about five minutes
    python -m bench.spark --only read         one part; --help lists them
    python -m bench.spark --rounds 5          more rounds, steadier medians
    python -m bench.spark --markdown          as docs/performance.md has it

Needs Java, and Maven once for the connector's jars (tests/conformance/kafka_jars.py); without them our side is measured
alone. The broker is Ottla's, in a process of its own. Exit code 1 when a bar is not reached.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.spark import parts, profile, realistic, triggered
from bench.spark.both import Both
from bench.walk.figures import Figure, markdown, table

PARTS = {
    "read": parts.read,
    "decode": parts.decode,
    "write": parts.write,
    "batches": parts.micro_batches,
    "phases": parts.phases,
}
ALONE = {"profile": profile.profile, "trigger": triggered.trigger, "endurance": triggered.endurance}
"""Only when they are asked for: one changes the processes of the whole session, the others take minutes."""
BY_CONNECT = {
    "pipeline": realistic.pipeline,
    "cost": realistic.cost,
    "skew": realistic.skew,
    "partitions": realistic.partitions,
    "large": realistic.large,
}
"""Only when they are asked for: pipelines in a session of Spark Connect, each for minutes (realistic.py)."""
NAMED = PARTS | ALONE | BY_CONNECT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the sides take turns (default 5)")
    parser.add_argument(
        "--rows", type=int, default=2_000_000, help="rows of the topic that is read (default 2,000,000)"
    )
    parser.add_argument("--only", metavar="PART", choices=[*NAMED], help=f"one part: {', '.join(NAMED)}")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()

    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ottla-spark-", dir=arguments.root) as directory:
        if arguments.only == "profile":
            profile.prepare(Path(directory))
        by_connect = arguments.only in BY_CONNECT
        with Both(Path(directory), arguments.rows, arguments.rounds, by_connect=by_connect) as both:
            for name, part in NAMED.items():
                if arguments.only == name or (arguments.only is None and name in PARTS):
                    figures += part(both)
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
