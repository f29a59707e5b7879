"""`make bench`: all micro benchmarks in one run, as a table of ratios.

    python -m bench.micro                  the table
    python -m bench.micro --rounds 15      more rounds, steadier medians
    python -m bench.micro --json           for other programs
    python -m bench.micro --markdown       as docs/performance.md has it

Exit code 1 when a bar is not reached.
"""

import argparse
import json
import sys
import warnings

from bench.micro.measure import Row
from bench.walk.figures import interpreter


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="how often the sides take turns (default 9)")
    parser.add_argument("--only", metavar="PART", help="one part: records, consume, protocol, storage, compaction")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()

    rows = measure(arguments.rounds, arguments.only)
    if arguments.json:
        print(json.dumps([as_dict(row) for row in rows], indent=2))
    else:
        print(markdown(rows) if arguments.markdown else table(rows))
    return 0 if all(row.reached for row in rows) else 1


def measure(rounds: int, only: str | None) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kafka-python warns at import
        from bench.micro import compaction, consume, protocol, records, storage
    parts = {"records": records, "consume": consume, "protocol": protocol, "storage": storage, "compaction": compaction}
    chosen = parts if only is None else {only: parts[only]}
    found = []
    for name, part in chosen.items():
        if sys.stderr.isatty():
            print(f"measuring {name} …", file=sys.stderr)
        found += part.rows(rounds)
    return found


def table(rows: list[Row]) -> str:
    width = max(len(row.comparison.name) for row in rows)
    lines = [f"{'ratio inside this run, median':{width}}   ratio   bar            ours / theirs"]
    for row in rows:
        mark = " " if row.reached else "✗"
        figures = f"{row.ours:,.0f} / {row.theirs:,.0f} {row.unit}"
        lines.append(f"{row.comparison.name:{width}} {row.ratio:7.2f} {mark} {row.comparison.bar:14} {figures}")
    return "\n".join([*lines, "", interpreter()])


def markdown(rows: list[Row]) -> str:
    lines = ["| what | ratio | bar | ours / theirs |", "| --- | --- | --- | --- |"]
    for row in rows:
        figures = f"{row.ours:,.0f} / {row.theirs:,.0f} {row.unit}"
        lines.append(f"| {row.comparison.name} | {row.ratio:.2f} | {row.comparison.bar} | {figures} |")
    return "\n".join(lines)


def as_dict(row: Row) -> dict[str, object]:
    return {
        "name": row.comparison.name,
        "ratio": round(row.ratio, 4),
        "bar": row.comparison.bar,
        "reached": row.reached,
        "ours": round(row.ours, 1),
        "theirs": round(row.theirs, 1),
        "unit": row.unit,
    }


if __name__ == "__main__":
    sys.exit(main())
