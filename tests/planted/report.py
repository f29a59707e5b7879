"""What was found, kept as JSON beside the bugs, and the table of docs/reliability.md that is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.planted.bug import SOURCE
from tests.planted.bugs import BUGS

FOUND = Path(__file__).parent / "found.json"
PAGE = SOURCE.parent / "docs" / "reliability.md"
HEAD = """\
| bug | what it breaks | what it resembles | found by | schedules | as | commit |
| --- | --- | --- | --- | --- | --- | --- |
"""


def read_found() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(FOUND.read_text()) if FOUND.exists() else {}
    return found


def keep_found(outcomes: Mapping[str, Mapping[str, Any]]) -> None:
    """Write down what is new; what was found before stays unless it was sought again."""
    known = {**read_found(), **outcomes}
    ordered = {name: known[name] for name in BUGS if name in known}
    FOUND.write_text(json.dumps(ordered, indent=1) + "\n")


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    return HEAD + "".join(_rows(found))


def _rows(found: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for name, bug in BUGS.items():
        row = found.get(name)
        if row is None:
            cells: tuple[object, ...] = ("not sought yet", 0, "", "")
        else:
            where = "not found" if row["seed"] is None else f"seed {row['seed']}{_cluster(row['brokers'])}"
            cells = where, row["schedules"], ", ".join(row["anomalies"]), row["commit"]
        yield f"| {name} | {bug.breaks} | {bug.resembles} | {' | '.join(map(str, cells))} |\n"


def _cluster(brokers: int | None) -> str:
    return "" if brokers is None else f", {brokers} brokers"


def page_with_table(page: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with today's table instead of the one that it has."""
    start = page.index("| bug | what it breaks |")
    end = page.index("\n\n", start) + 1
    return page[:start] + table(found) + page[end:]
