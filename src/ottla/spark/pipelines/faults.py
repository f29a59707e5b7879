"""What is wrong with a pipeline's file: all of it at once, each with its line.

clicks.yml:14: sinks.out.form: there is no such word; did you mean 'from'?
clicks.yml:9: steps.valid.sql: there is no source or step 'click'; did you mean 'clicks'?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass

SHOWN_LIMIT: Final = 20

Place: TypeAlias = tuple[str, ...]
Lines: TypeAlias = Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. A place is the words that lead to it: ("steps", "valid", "sql")."""

    place: Place
    sentence: str

    def text(self, file_name: str, lines: Lines) -> str:
        line = line_of(self.place, lines)
        where = f"{file_name}:{line}" if line else file_name
        return f"{where}: {'.'.join(self.place)}: {self.sentence}" if self.place else f"{where}: {self.sentence}"


class PipelineWrong(OttlaError):
    """The pipeline's file is not right."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(self.faults))

    def __str__(self) -> str:
        more = len(self.faults) - SHOWN_LIMIT
        lines = [*self.faults[:SHOWN_LIMIT], *([f"and {more} more"] if more > 0 else [])]
        return "\n".join(lines)


def line_of(place: Place, lines: Lines) -> int | None:
    """The line of a place, or of the nearest that holds it."""
    for length in range(len(place), -1, -1):
        if (line := lines.get(place[:length])) is not None:
            return line
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """What comes behind "there is no such ...": the word that was probably meant, else all of them."""
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {near[0]!r}?"
    return f"; there is {', '.join(names)}" if names else ""
