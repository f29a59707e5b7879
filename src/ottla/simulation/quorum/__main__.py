"""`python -m ottla.simulation.quorum --seeds 1-20000 --jobs 2`: schedules of a quorum, and what was wrong in them.

Prints the seeds that break a promise, and a line of what was played. Exit code 1 when there was any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence

from ottla.simulation.command import seeds_of
from ottla.simulation.quorum.run import TROUBLE_MS, outcome_of


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation.quorum", description=__doc__)
    parser.add_argument("--seeds", default="1-1000", metavar="A-B", help="which schedules; 1-1000 by default")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many processes")
    parser.add_argument("--first", action="store_true", help="end at the first seed that breaks a promise")
    options = parser.parse_args(arguments)
    began_s, total, played, failed = time.monotonic(), Counter[str](), 0, 0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for outcome in pool.imap_unordered(outcome_of, seeds_of(options.seeds), chunksize=8):
            played += 1
            total += outcome.counts
            if outcome.problem:
                failed += 1
                print(f"seed {outcome.seed}: {outcome.problem}", flush=True)
                if options.first:
                    break
            if sys.stderr.isatty():
                print(f"\r{played} schedules, {failed} with a broken promise", end="", file=sys.stderr, flush=True)
    what = ", ".join(f"{count:,} {name}" for name, count in sorted(total.items()))
    seconds = time.monotonic() - began_s
    print(f"{played:,} schedules of {TROUBLE_MS // 1000} s of trouble in {seconds:,.0f} s: {what}; {failed} broken")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
