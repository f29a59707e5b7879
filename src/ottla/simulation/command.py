"""`ottla simulate`: a cluster of real brokers in one process, from a number; finds what must not be and tells how.

1. Prints a line for every seed, the anomalies of those that have some, and the line that repeats each.
2. Exit code 1 when a seed has an anomaly.
3. --shrink makes a failing run smaller; --save writes it down and --run repeats it.
4. --jobs and --report make a campaign of it (campaign.py): several processes, one line of progress, one report.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
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
  ottla simulate --seeds 1-50000 --short --jobs 2 --report campaign.json
                                                 a long one, which goes on where it ended when it is run again
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
    parser.add_argument("--controllers", action="store_true", help="brokers live under controllers of a metadata log")
    parser.add_argument("--loads", metavar="NAMES", help="these workloads only, with commas; drawn by default")
    parser.add_argument("--faults", metavar="KINDS", help="these kinds in every run, beside what the seed draws")
    parser.add_argument("--short", action="store_true", help="histories of a few seconds, as in `make test`")
    parser.add_argument("--jobs", type=int, metavar="N", help="run seeds on so many processes")
    parser.add_argument("--report", type=Path, metavar="FILE", help="keep what was found, and go on from there")
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
    if options.jobs is not None or options.report is not None:
        return _run_campaign(options)
    from ottla.simulation.tally import Tally, outcome_of

    tally = Tally({})
    for result in _results(options):
        tally.add(outcome_of(_report(result, options)))
        if options.save is not None and result.anomalies:
            from ottla.simulation.plan_text import plan_text

            options.save.write_text(plan_text(result.plan, result.faults))
    if tally.runs > 1 and not options.json:
        print("\n".join(tally.lines()))
    return 1 if tally.failed else 0


def _run_campaign(options: argparse.Namespace) -> int:
    from ottla.simulation.campaign import run_campaign

    alone = ("file", "story", "page", "shrink", "save", "history", "json")
    if any(getattr(options, name) for name in alone):
        raise SystemExit("--jobs and --report are for many seeds; --story, --shrink and the like for one of them")
    if options.jobs is not None and options.jobs < 1:
        raise SystemExit("--jobs must be at least 1")
    seeds = _seeds(options)
    asked = {
        "seeds": options.seeds or options.seed,
        "hours": options.hours,
        "is_short": options.short,
        "brokers": options.brokers,
        "controllers": options.controllers,
        "loads": options.loads.split(",") if options.loads else None,
        "faults": _kinds(options),
        "shown": options.show,
    }
    total = len(seeds) if isinstance(seeds, Sized) else None
    return run_campaign(
        seeds, asked, jobs=options.jobs or 1, report=options.report, total=total, ends_at_first=options.first
    )


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
        drawn = (Plan.short if options.short else Plan.drawn)(seed, options.brokers)
        if options.controllers:
            drawn = drawn.under_controllers(options.brokers)
        if options.loads:
            drawn = replace(drawn, loads=tuple(options.loads.split(",")))
        if kinds := _kinds(options):
            drawn = drawn.with_kinds(kinds)
        yield lambda drawn=drawn: run_plan(drawn, is_watched=is_watched)  # type: ignore[misc]


def _kinds(options: argparse.Namespace) -> list[str] | None:
    """The kinds of faults that every run must have."""
    if not options.faults:
        return None
    from ottla.simulation.fault import LONGEST_S

    kinds: list[str] = options.faults.split(",")
    if unknown := [kind for kind in kinds if kind not in LONGEST_S]:
        raise SystemExit(f"there is no fault {', '.join(unknown)}; there are {', '.join(LONGEST_S)}")
    return kinds


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
