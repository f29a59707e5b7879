"""What a measurement gives: a figure, its bar, and a word about how it came about."""

from __future__ import annotations

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
