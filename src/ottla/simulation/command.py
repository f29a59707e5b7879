"""`ottla simulate`: a cluster of real brokers in one process, from a number; finds what must not be and tells how.

1. Prints a line for every seed, the anomalies of those that have some, and the line that repeats each.
2. Exit code 1 when a seed has an anomaly.
3. --shrink makes a failing run smaller; --save writes it down and --run repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.simulation.run import Result

EXAMPLES: Final = """\
examples:
  ottla simulate --seed 7                        one run: what was drawn, what was found
  ottla simulate --seeds 1-100                   a hundred
  ottla simulate --seed 7 --story                what happened, on every node, in the order of time
  ottla simulate --seed 7 --page seed7.html      the time line drawn
  ottla simulate --seed 7 --shrink --save 7.json make a failing run smaller and keep it
  ottla simulate --run 7.json --story            run what was kept
  ottla simulate --hours 1                       a campaign, from a seed that nobody has run yet
"""
SHOWN: Final = 10


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Run brokers, clients and faults in one process, from a seed, and check what clients saw."
    parser.epilog, parser.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    parser.set_defaults(run=run)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="run this one")
    which.add_argument("--seeds", metavar="A-B", help="run all from A to B; or a list: 3,8,15")
    which.add_argument("--hours", type=float, metavar="H", help="run new seeds for so long")
    which.add_argument("--run", type=Path, metavar="FILE", dest="file", help="run what --save has written")
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="drawn from the seed by default")
    parser.add_argument("--loads", metavar="NAMES", help="these workloads only, with commas; drawn by default")
    parser.add_argument("--story", action="store_true", help="tell what happened; all of it with --whole")
    parser.add_argument("--whole", action="store_true", help="with --story: also what no anomaly is about")
    parser.add_argument("--page", type=Path, metavar="FILE.html", help="write the time line as a page")
    parser.add_argument("--shrink", action="store_true", help="make a failing run smaller")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the last failing run down, for --run")
    parser.add_argument("--first", action="store_true", help="end at the first seed that has an anomaly")
    parser.add_argument("--history", action="store_true", help="print all that clients asked and heard, as JSON lines")
    parser.add_argument("--json", action="store_true", help="one line of JSON for every seed")
    parser.add_argument("--show", type=int, default=SHOWN, metavar="N", help="at most so many anomalies of each seed")


def run(options: argparse.Namespace) -> int:
    """What the options ask for; 1 when something was found."""
    results = [_report(result, options) for result in _results(options)]
    bad = [result for result in results if result.anomalies]
    if len(results) > 1 and not options.json:
        _print_total(results, bad)
    if options.save is not None and bad:
        from ottla.simulation.plan_text import plan_text

        options.save.write_text(plan_text(bad[-1].plan, bad[-1].faults))
    return 1 if bad else 0


def _results(options: argparse.Namespace) -> Iterator[Result]:
    for make in _runs(options):
        result = make()
        if options.shrink and result.anomalies:
            result = _shrunk(result, options)
        yield result
        if options.first and result.anomalies:
            return


def _runs(options: argparse.Namespace) -> Iterator[Callable[[], Result]]:
    from ottla.light_dataclasses import replace
    from ottla.simulation.plan import Plan
    from ottla.simulation.run import run_plan

    is_watched = options.story or options.page is not None
    if options.file is not None:
        from ottla.simulation.plan_text import read_plan

        plan, faults = read_plan(options.file.read_text())
        yield lambda: run_plan(plan, faults, is_watched=is_watched)
        return
    for seed in _seeds(options):
        drawn = Plan.drawn(seed, options.brokers)
        if options.loads:
            drawn = replace(drawn, loads=tuple(options.loads.split(",")))
        yield lambda drawn=drawn: run_plan(drawn, is_watched=is_watched)  # type: ignore[misc]


def _seeds(options: argparse.Namespace) -> Iterable[int]:
    if options.seed is not None:
        return [options.seed]
    if options.seeds is not None:
        return seeds_of(options.seeds)
    if options.hours is None:
        return [time.time_ns() % 1_000_000_000]
    return _for_hours(options.hours)


def _for_hours(hours: float) -> Iterator[int]:
    end_s = time.monotonic() + hours * 3_600
    for seed in count(time.time_ns() % 1_000_000_000):
        if time.monotonic() >= end_s:
            return
        yield seed


def seeds_of(text: str) -> Iterable[int]:
    """`1-100`, `3,8,15`; `1:100` has no 100 in it."""
    try:
        if "," in text:
            return [int(each) for each in text.split(",")]
        if ":" in text:
            first, _, last = text.partition(":")
            return range(int(first), int(last))
        first, _, last = text.partition("-")
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise SystemExit(f"{text!r} names no seeds; write 1-100, or 3,8,15") from None


def _shrunk(result: Result, options: argparse.Namespace) -> Result:
    from ottla.simulation.run import run_plan
    from ottla.simulation.shrink import shrink

    smaller = shrink(result, run=lambda plan, faults: run_plan(plan, faults, is_watched=True))
    if not options.json:
        before, after = len(result.faults), len(smaller.result.faults)
        print(f"shrunk in {smaller.tries} tries: {before} faults became {after}", flush=True)
    return smaller.result


def _report(result: Result, options: argparse.Namespace) -> Result:
    """Say what became of a seed."""
    if options.page is not None:
        from ottla.simulation.page import page

        options.page.write_text(page(result), encoding="utf-8")
    if options.json:
        print(json.dumps(result.plain(options.show)), flush=True)
    elif options.story:
        from ottla.simulation.story import story

        for line in story(result, is_whole=options.whole):
            print(line)
    else:
        print(result.summary(), flush=True)
        for anomaly in result.anomalies[: options.show]:
            print(f"  {anomaly}")
    if result.anomalies and not options.json:
        print(f"  repeat with: {result.repeat_command}", flush=True)
    if options.history:
        sys.stdout.write(result.history.text())
    return result


def _print_total(results: list[Result], bad: list[Result]) -> None:
    virtual_s, cpu_s = sum(each.virtual_s for each in results), sum(each.cpu_s for each in results)
    print(
        f"{len(results)} seeds, {virtual_s:.0f} s of virtual time in {cpu_s:.1f} s of CPU "
        f"({virtual_s / max(cpu_s, 1e-9):.0f} times real time), {len(bad)} with anomalies"
        f"{': ' + ' '.join(str(each.plan.seed) for each in bad) if bad else ''}"
    )
