"""`python -m ottla.simulation --seed 7`, or `--seeds 1:100`: runs seeds and says what was found.

Exit code 1 when there is an anomaly; the command that repeats it is printed with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from ottla.simulation.run import Result, run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    results = [_run(seed, options) for seed in options.seeds]
    bad = [result for result in results if result.anomalies]
    if len(results) > 1:
        _print_total(results, bad)
    return 1 if bad else 0


def _run(seed: int, options: argparse.Namespace) -> Result:
    result = run_seed(seed, options.brokers)
    print(result.summary(), flush=True)
    for anomaly in result.anomalies[: options.show]:
        print(f"  {anomaly}")
    if result.anomalies:
        print(f"  repeat with: {result.repeat_command}", flush=True)
    if options.history:
        sys.stdout.write(result.history.text())
    return result


def _print_total(results: Sequence[Result], bad: Sequence[Result]) -> None:
    virtual_s, cpu_s = sum(each.virtual_s for each in results), sum(each.cpu_s for each in results)
    print(
        f"{len(results)} seeds, {virtual_s:.0f} s of virtual time in {cpu_s:.1f} s of CPU "
        f"({virtual_s / max(cpu_s, 1e-9):.0f} times real time), {len(bad)} with anomalies"
        f"{': ' + ' '.join(str(each.plan.seed) for each in bad) if bad else ''}"
    )


def _seeds(text: str) -> Iterable[int]:
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", dest="seeds", type=lambda text: [int(text)], help="run this one")
    which.add_argument("--seeds", type=_seeds, metavar="A:B", help="run all from A up to, not including, B")
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="drawn from the seed by default")
    parser.add_argument("--history", action="store_true", help="print everything that clients asked and heard")
    parser.add_argument("--show", type=int, default=10, metavar="N", help="at most so many anomalies of each seed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
