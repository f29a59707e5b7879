"""What a measurement gives: a figure, its bar, and a word about how it came about; and tables of them."""

from __future__ import annotations

import platform
import sysconfig
from dataclasses import dataclass
from pathlib import Path


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


def interpreter() -> str:
    """Which Python this is: how it was built makes more of a difference than most of what is measured (0146)."""
    built = " ".join(platform.python_build()[1].split())
    try:
        is_shared = "libpython" in Path("/proc/self/maps").read_text()
    except OSError:
        is_shared = bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    how = "in a shared library" if is_shared else "linked statically"
    compiler = platform.python_compiler()
    return f"Python {platform.python_version()}, built {built} by {compiler}, {how}; {platform.machine()}"


def table(figures: list[Figure]) -> str:
    width = max(len(each.name) for each in figures)
    lines = [f"{'median of this run':{width}}  {'figure':>9}    bar               how"]
    for each in figures:
        mark = " " if each.reached else "✗"
        lines.append(f"{each.name:{width}}  {each.text:>9} {mark}  {each.bar:17} {each.detail}")
    return "\n".join([*lines, "", interpreter()])


def markdown(figures: list[Figure]) -> str:
    lines = ["| what | figure | bar | how |", "| --- | --- | --- | --- |"]
    lines += [f"| {each.name} | {each.text} | {each.bar} | {each.detail} |" for each in figures]
    return "\n".join(lines)
