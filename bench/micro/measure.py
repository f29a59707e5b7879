"""How the micro benchmarks measure: sides that take turns, ratios of the same moment, medians.

Absolute figures from a shared machine mean little; only a ratio inside one run does. So every comparison names two
sides and a bar, each round measures all sides once, and the answer is the median of the ratios of the rounds.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Long enough that the clock does not matter, short enough that a neighbour seldom falls into one side only.
SAMPLE_S = 0.02


@dataclass(frozen=True)
class Comparison:
    """`ours` over `theirs`, and what it should be."""

    name: str
    ours: str
    theirs: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bar(self) -> str:
        return f"at most {self.at_most}" if self.at_most is not None else f"at least {self.at_least}"

    def reached(self, ratio: float) -> bool:
        return ratio <= self.at_most if self.at_most is not None else ratio >= (self.at_least or 0)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    comparison: Comparison
    ratio: float
    ours: float
    theirs: float
    unit: str

    @property
    def reached(self) -> bool:
        return self.comparison.reached(self.ratio)


def nanoseconds(work: Callable[[], object]) -> float:
    """Per call, from a sample of at least SAMPLE_S."""
    repeats, took = 1, 0.0
    while took < SAMPLE_S:
        repeats *= 2
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        took = time.perf_counter() - started
    return took / repeats * 1e9


def compare(
    sides: Mapping[str, Callable[[], object]],
    comparisons: list[Comparison],
    rounds: int,
    *,
    per_call: int = 1,
    unit: str = "ns",
) -> list[Row]:
    """Measure all sides, `rounds` times by turns. `per_call` is how many things one call works on."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, work in sides.items():
            taken[name].append(nanoseconds(work) / per_call)
    return [_row(comparison, taken, unit) for comparison in comparisons]


def _row(comparison: Comparison, taken: dict[str, list[float]], unit: str) -> Row:
    ours, theirs = taken[comparison.ours], taken[comparison.theirs]
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return Row(comparison, ratio, statistics.median(ours), statistics.median(theirs), unit)
