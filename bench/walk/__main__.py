"""`python -m bench.walk`: the broker as a process against bare servers, as a table of figures with bars.

    python -m bench.walk                    the table, in less than three minutes
    python -m bench.walk --only produce     one part; --help lists them
    python -m bench.walk --rounds 7         more rounds, steadier medians
    python -m bench.walk --set socket.receive.buffer.bytes=-1      the broker with other settings
    python -m bench.walk --json             for other programs
    python -m bench.walk --markdown         as docs/performance.md has it

Exit code 1 when a bar is not reached. Data goes to a directory that is removed, under --root.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.walk import access, behaviour, checks, encrypted, processes, quotas, throughput
from bench.walk.figures import Figure, markdown, table

PARTS = {
    "produce": throughput.produce,
    "fetch": throughput.fetch,
    "tls": encrypted.encrypted,
    "latency": behaviour.latency,
    "start": behaviour.start,
    "memory": behaviour.memory,
    "fairness": behaviour.fairness,
    "consumers": behaviour.beside_consumers,
    "housework": behaviour.beside_housework,
    "quotas": quotas.quotas,
    "access": access.access,
    "checks": checks.checks,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.walk", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the sides take turns (default 5)")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of the broker")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()

    processes.broker_settings += arguments.set
    figures = measure(arguments.root, arguments.rounds, arguments.only)
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(markdown(figures) if arguments.markdown else table(figures))
    return 0 if all(each.reached for each in figures) else 1


def measure(root: Path | None, rounds: int, only: str | None) -> list[Figure]:
    chosen = PARTS if only is None else {only: PARTS[only]}
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="ottla-walk-", dir=root) as directory:
        for name, part in chosen.items():
            if sys.stderr.isatty():
                print(f"measuring {name} …", file=sys.stderr)
            throughput.warm(Path(directory))
            found += part(Path(directory), rounds)
    return found


if __name__ == "__main__":
    sys.exit(main())
