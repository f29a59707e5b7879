"""`python -m bench.console`: what an open console costs the broker, and how fast it answers.

    python -m bench.console                    everything, in about four minutes
    python -m bench.console --only rate        produce throughput with and without open pages, in turns
    python -m bench.console --only latency     p99 of produce with and without open pages, in turns
    python -m bench.console --only pages       CPU of the broker for each second that a page is open
    python -m bench.console --only slices      how long the broker's loop is held in one piece by each page
    python -m bench.console --only slices-of-many   the same beside 10,000 topics
    python -m bench.console --only topics      10,000 topics: lists, overview, live picture
    python -m bench.console --only start       start of a broker without HTTP, without the extra, and with the console
    python -m bench.console --only browser     how long Chromium takes from the address to the page (make setup-browser)
    python -m bench.console --only browser-topics   the same for the list of 10,000 topics
    python -m bench.console --turns 12         more turns, steadier medians

A page is imitated by polling.py, which asks what the page asks, as often as the page does, on a connection that stays
open; a browser beside the broker would take the CPU that is measured. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.console import browser, load, slices, start, topics
from bench.walk.figures import table

PARTS = {
    "rate": load.rates,
    "latency": load.latencies,
    "pages": load.of_pages,
    "slices": slices.few,
    "slices-of-many": slices.many,
    "topics": topics.ten_thousand,
    "start": start.starts,
    "browser": browser.loads,
    "browser-topics": browser.list_of_many,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PART", choices=PARTS, help=f"one part: {', '.join(PARTS)}")
    parser.add_argument("--turns", type=int, default=8, help="how often each side has its turn (default 8)")
    parser.add_argument("--root", type=Path, help="where data is written (default: the system's temporary directory)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    chosen = PARTS if arguments.only is None else {arguments.only: PARTS[arguments.only]}
    with tempfile.TemporaryDirectory(prefix="ottla-console-", dir=arguments.root) as directory:
        figures = [figure for part in chosen.values() for figure in part(Path(directory), arguments.turns)]
    if arguments.json:
        print(json.dumps([{**asdict(each), "reached": each.reached} for each in figures], indent=2))
    else:
        print(table(figures))
    return 0 if all(each.reached for each in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
