"""`python -m bench.client`: our client beside those of the field, on the same broker, as a table of ratios with bars.

    python -m bench.client                    the whole table
    python -m bench.client --only produce     one half: produce or consume
    python -m bench.client --rounds 7         more rounds, steadier medians
    python -m bench.client --quick            one round with few records: does it run, not how fast
    python -m bench.client --markdown         as docs/performance.md has it

Exit code 1 when a bar is not reached. Data goes to directories that are removed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from bench.client import consume, produce
from bench.walk.figures import markdown, table

PARTS = {"produce": produce.figures, "consume": consume.figures}
QUICK_RECORDS = 50_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the clients take turns (default 5)")
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one half: {', '.join(PARTS)}")
    parser.add_argument("--records", type=int, default=1_000_000, help="records per measurement (default a million)")
    parser.add_argument("--quick", action="store_true", help="one round with few records")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    wanted = parser.parse_args()
    rounds, records = (1, QUICK_RECORDS) if wanted.quick else (wanted.rounds, wanted.records)
    chosen = PARTS if wanted.only is None else {wanted.only: PARTS[wanted.only]}
    found = [figure for part in chosen.values() for figure in part(rounds, records)]
    if wanted.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in found], indent=2))
    else:
        print(markdown(found) if wanted.markdown else table(found))
    return 0 if all(each.reached for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
