"""Whole-broker power cuts, each at a drawn operation of the disk: what was acknowledged must be there.

    python -m ottla.simulation.power_cuts --cuts 1000
    python -m ottla.simulation.power_cuts --cuts 1000 --controllers

1. Every run has one broker with its metadata log, or three with `durable` records; with --controllers they are the
   controllers of their metadata log, too. Each loses power up to
   CUTS_PER_RUN times: not between two steps of the code but instead of the n-th operation on the disk from then on,
   also while the broker still recovers from the cut before. Unsynced writes are kept, lost, torn, or leave zeros or
   garbage.
2. A cut that never came (the broker did not touch its disk as often as that) is not counted.
3. Runs are seeds like all others: the same checker judges them, and the same number repeats them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from ottla.simulation.fault import Fault
from ottla.simulation.plan import Plan
from ottla.simulation.run import Result, run_plan
from ottla.simulation.tally import Tally, outcome_of

CUTS_PER_RUN: Final = 10
PAUSE_S: Final = 0.6  # between two cuts, on average
FIRST_OPERATIONS: Final = (3, 30, 120)  # a cut is within so many operations
POWER_CUT: Final = "power cut"


def power_cut_plan(seed: int, brokers: int, *, is_quorum: bool = False) -> tuple[Plan, list[Fault]]:
    """A run of many cuts, and its faults."""
    random = Random(f"power cuts {seed}")
    faults: list[Fault] = []
    at_s = 0.3
    for _ in range(CUTS_PER_RUN):
        operations = random.randint(1, random.choice(FIRST_OPERATIONS))
        away_s = round(0.2 * random.random(), 6)
        parameters = (("away_s", away_s), ("operations", operations))
        faults.append(Fault(round(at_s, 6), "power-at-disk", random.randrange(brokers), 4.0, parameters))
        at_s += PAUSE_S * 2 * random.random() * brokers
    plan = Plan(
        seed,
        brokers,
        partitions=random.randint(1, 2),
        durability="durable",
        kinds=("power-at-disk",),
        work_s=at_s,
        fault_pause_s=PAUSE_S,
        send_pause_s=0.1,
        loads=("numbers", "follow", random.choice(("group-consumer", "transfers", "compact"))),
        after_s=0.5,
        session_s=1.5,
        lag_s=1.5,
        controllers=brokers if is_quorum else 0,
        combined=is_quorum,
    )
    return plan, faults


def run_power_cuts(seed: int, brokers: int, *, is_quorum: bool = False) -> Result:
    """One run of many cuts."""
    return run_plan(*power_cut_plan(seed, brokers, is_quorum=is_quorum))


def count_cuts(result: Result) -> int:
    """How often a machine lost its power."""
    return sum(moment.kind == POWER_CUT for moment in result.timeline.moments)


def run_cuts(
    cuts: int, *, first_seed: int = 0, brokers: Sequence[int] = (1, 1, 1, 3), is_quorum: bool = False
) -> Iterator[Result]:
    """Runs until there were so many cuts."""
    seed = first_seed
    while cuts > 0:
        result = run_power_cuts(seed, brokers[seed % len(brokers)], is_quorum=is_quorum)
        cuts -= count_cuts(result)
        seed += 1
        yield result


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation.power_cuts")
    parser.add_argument("--cuts", type=int, default=1_000, help="until there were so many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--controllers", action="store_true", help="brokers are controllers of a metadata log, too")
    options = parser.parse_args(arguments)
    brokers = (1, 3, 3, 3) if options.controllers else (1, 1, 1, 3)
    cuts, tally = 0, Tally({})
    for result in run_cuts(options.cuts, first_seed=options.first_seed, brokers=brokers, is_quorum=options.controllers):
        cuts += count_cuts(result)
        tally.add(outcome_of(result))
        if result.anomalies:
            print(f"seed {result.plan.seed}, {result.plan.brokers} broker(s): {result.anomalies[:5]}", flush=True)
    print("\n".join(tally.lines()))
    last = options.first_seed + tally.runs - 1
    print(f"{cuts} power cuts in seeds {options.first_seed} to {last}, {tally.failed} runs with anomalies")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
