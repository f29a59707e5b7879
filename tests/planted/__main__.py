"""`python -m tests.planted`: see the package."""

from __future__ import annotations

import argparse
import sys

from tests.planted.bugs import BUGS
from tests.planted.seeking import Outcome, seek


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description="Plant bugs and let seeds find them.")
    parser.add_argument("names", nargs="*", metavar="BUG", help="these only; all by default")
    parser.add_argument("--list", action="store_true", help="print what there is")
    parser.add_argument("--schedules", type=int, default=40, help="at most so many for each")
    parser.add_argument("--seconds", type=float, default=900.0, help="at most so long for each")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="where to begin")
    options = parser.parse_args()
    if options.list:
        for bug in BUGS.values():
            print(f"{bug.name:40} {bug.breaks} ({bug.resembles})")
        return 0
    outcomes: list[Outcome] = []
    for name in options.names or BUGS:
        outcomes.append(seek(BUGS[name], limit=options.schedules, timeout_s=options.seconds, first=options.first))
        print(outcomes[-1].line(), flush=True)
    missed = [outcome.bug.name for outcome in outcomes if outcome.seed is None]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
