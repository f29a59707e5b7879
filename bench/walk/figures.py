"""What a measurement gives: a figure, its bar, and a word about how it came about; and tables of them."""

from __future__ import annotations

import platform
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table. `value` is a ratio inside the run, unless `unit` says otherwise."""

    name: str
    value: float
    detail: str
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    @property
    def bar(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}{self.unit}"
        return f"at least {self.at_least:g}{self.unit}" if self.at_least is not None else "none"

    @property
    def reached(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def text(self) -> str:
        return f"{self.value:.3g}{self.unit}"


def table(figures: list[Figure]) -> str:
    width = max(len(each.name) for each in figures)
    lines = [f"{'median of this run':{width}}  {'figure':>9}    bar               how"]
    for each in figures:
        mark = " " if each.reached else "✗"
        lines.append(f"{each.name:{width}}  {each.text:>9} {mark}  {each.bar:17} {each.detail}")
    return "\n".join([*lines, "", f"Python {platform.python_version()}, {platform.machine()}"])


def markdown(figures: list[Figure]) -> str:
    lines = ["| what | figure | bar | how |", "| --- | --- | --- | --- |"]
    lines += [f"| {each.name} | {each.text} | {each.bar} | {each.detail} |" for each in figures]
    return "\n".join(lines)
