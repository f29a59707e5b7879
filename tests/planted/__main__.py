"""`python -m tests.planted`: see the package."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace

from tests.planted.bug import SOURCE
from tests.planted.bugs import BUGS
from tests.planted.report import FOUND, PAGE, keep_found, page_with_table, read_found, table
from tests.planted.seeking import Outcome, seek


def main() -> int:
    options = _options()
    if options.list:
        for bug in BUGS.values():
            print(f"{bug.name:40} {bug.breaks} ({bug.resembles})")
        return 0
    outcomes: list[Outcome] = []
    for name in options.names or BUGS:
        before = read_found().get(name, {}) if options.go_on else {}
        if before.get("seed") is not None:
            continue
        first = before.get("next", options.first)
        found = seek(BUGS[name], limit=options.schedules, cpu_s=options.cpu, first=first)
        spent = {"schedules": before.get("schedules", 0), "cpu_s": before.get("cpu_s", 0.0)}
        outcomes.append(replace(found, **{key: getattr(found, key) + value for key, value in spent.items()}))
        print(outcomes[-1].line(), flush=True)
        if options.keep:
            _keep(outcomes[-1])
    missed = [outcome.bug.name for outcome in outcomes if outcome.seed is None]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} found")
    if options.table:
        print(table(read_found()))
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Plant bugs and let seeds find them.")
    parser.add_argument("names", nargs="*", metavar="BUG", help="these only; all by default")
    parser.add_argument("--list", action="store_true", help="print what there is")
    parser.add_argument("--schedules", type=int, default=100, help="at most so many for each")
    parser.add_argument("--cpu", type=float, default=300.0, help="at most so many seconds of CPU for each")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="where to begin")
    parser.add_argument("--go-on", action="store_true", help="only those not found yet, from where their search ended")
    parser.add_argument("--keep", action="store_true", help=f"write what is found to {FOUND.name} and {PAGE.name}")
    parser.add_argument("--table", action="store_true", help="print the table of all that was found")
    return parser.parse_args()


def _keep(outcome: Outcome) -> None:
    command = ["git", "-C", str(SOURCE.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    keep_found({outcome.bug.name: {**outcome.plain(), "commit": commit}})
    PAGE.write_text(page_with_table(PAGE.read_text(), read_found()))


if __name__ == "__main__":
    sys.exit(main())
