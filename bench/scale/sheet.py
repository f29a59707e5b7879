"""What was measured, row by row, for both sides, and the table that comes of it.

A row is one figure of every round. With both sides its value is the ratio Ottla / Kafka, the median of the rounds, and
the medians of both stand beside it; with one side alone its value is that side's own median, without a bar.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from bench.scale.sides import Side
from bench.walk.figures import Figure


@dataclass
class Row:
    """The bar is for the ratio: at most for what should be little, at least for what should be much."""

    name: str
    unit: str
    at_most: float | None
    at_least: float | None
    values: dict[str, list[float]] = field(default_factory=dict)

    def figure(self) -> Figure:
        if len(self.values) < 2:
            [(side, own)] = self.values.items()
            return Figure(self.name, statistics.median(own), f"{side} alone", f" {self.unit}")
        ours, theirs = self.values["Ottla"], self.values["Kafka"]
        # What neither side spends gives no ratio: the smallest that a clock of the system shows is added to both.
        least = 0.01 if self.unit in ("s", "% CPU") else 0.0
        ratio = statistics.median((a + least) / (b + least) for a, b in zip(ours, theirs, strict=True))
        detail = f"{statistics.median(ours):,.4g} / {statistics.median(theirs):,.4g} {self.unit}"
        return Figure(self.name, ratio, detail, at_most=self.at_most, at_least=self.at_least)


class Sheet:
    """The rows in the order in which they were first added."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def less(self, side: Side, name: str, value: float, unit: str) -> None:
        """A figure of which less is better."""
        self._add(side, Row(name, unit, 1.0, None), value)

    def more(self, side: Side, name: str, value: float, unit: str) -> None:
        """A figure of which more is better."""
        self._add(side, Row(name, unit, None, 1.0), value)

    def _add(self, side: Side, row: Row, value: float) -> None:
        self._rows.setdefault(row.name, row).values.setdefault(side.name, []).append(value)

    def figures(self) -> list[Figure]:
        return [row.figure() for row in self._rows.values()]
