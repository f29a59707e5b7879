"""Expected and written rows: the same, or how they differ.

1. Of a row only the columns that the expected one names are compared. Inside of a JSON value all fields count; one that
   is NULL and one that is not there are the same, as to_json writes them.
2. Values are compared by what they mean: 1 and 1.0, a time and its text, bytes and their UTF-8. Numbers with a fraction
   are the same when they differ by a part in NEAR.
3. Without `ordered` rows are a bag: which row belongs to which is found by the least difference, for the report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from math import isclose, isnan
from typing import Any, Final

from ottla.light_dataclasses import dataclass
from ottla.spark.pipelines.testing.cases import Expected
from ottla.spark.pipelines.testing.given import moment_of

NEAR: Final = 1e-9
PAIRED_MAX: Final = 200
"""More rows than this are not paired for the report: that takes their square."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of one dataset that are not as expected. Of a pair both are there, else one of them is None."""

    dataset: str
    columns: Sequence[str]
    pairs: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]]
    same: int
    expected: int
    written: int

    @property
    def summary(self) -> str:
        """In a few words."""
        rows = f"{self.expected} expected, {self.written} written"
        return f"{self.dataset}: {rows}, {self.same} of them the same"


def compare(dataset: str, expected: Expected, written: Sequence[Mapping[str, Any]]) -> Difference | None:
    """None when they are the same."""
    columns = list(dict.fromkeys(name for row in expected.rows for name in row))
    if not columns:
        columns = list(dict.fromkeys(name for row in written for name in row))
    if expected.ordered:
        wrong = [pair for pair in _one_by_one(expected.rows, written) if not _is_pair(pair)]
    else:
        wrong = _unordered(expected.rows, written)
    if not wrong:
        return None
    same = len(expected.rows) - sum(pair[0] is not None for pair in wrong)
    shown = [(_cut(row, columns), _cut(other, columns)) for row, other in wrong]
    return Difference(dataset, columns, shown, same, len(expected.rows), len(written))


Pair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


def _one_by_one(expected: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> list[Pair]:
    length = max(len(expected), len(written))
    return [
        (expected[place] if place < len(expected) else None, written[place] if place < len(written) else None)
        for place in range(length)
    ]


def _is_pair(pair: Pair) -> bool:
    expected, written = pair
    return expected is not None and written is not None and not _unlike(expected, written)


def _unlike(expected: Mapping[str, Any], written: Mapping[str, Any]) -> int:
    """In how many of the columns that are named two rows differ."""
    return sum(name not in written or not same(value, written[name]) for name, value in expected.items())


def _unordered(expected: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> list[Pair]:
    left = list(written)
    missing = []
    for row in sorted(expected, key=len, reverse=True):  # who says most has the fewest to choose from
        place = next((number for number, other in enumerate(left) if not _unlike(row, other)), None)
        if place is None:
            missing.append(row)
        else:
            del left[place]
    return _nearest_pairs(missing, left)


def _nearest_pairs(missing: Sequence[Mapping[str, Any]], left: list[Mapping[str, Any]]) -> list[Pair]:
    """Each missing row beside the written one that differs least, when they have anything in common."""
    pairs: list[Pair] = []
    for row in missing:
        near = None
        if len(left) <= PAIRED_MAX:
            near = min(left, key=partial(_unlike, row), default=None)
        if near is not None and _unlike(row, near) < len(row):
            left.remove(near)
            pairs.append((row, near))
        else:
            pairs.append((row, None))
    return pairs + [(None, row) for row in left]


def _cut(row: Mapping[str, Any] | None, columns: Sequence[str]) -> Mapping[str, Any] | None:
    return None if row is None else {name: row[name] for name in columns if name in row}


def same(expected: Any, written: Any) -> bool:
    """Whether two values mean the same."""
    if isinstance(expected, str) and isinstance(written, (Mapping, list)):
        expected = _read_json(expected)
    if isinstance(expected, Mapping) and isinstance(written, list):
        written = _as_map(written)
    if isinstance(expected, Mapping) and isinstance(written, Mapping):
        names = {*expected, *written}
        return all(same(expected.get(name), written.get(name)) for name in names)
    if isinstance(expected, (list, tuple)) and isinstance(written, (list, tuple)):
        return len(expected) == len(written) and all(map(same, expected, written))
    if expected is None or written is None or isinstance(expected, bool) or isinstance(written, bool):
        return expected is written
    if isinstance(expected, datetime) or isinstance(written, datetime):
        return _same_moment(expected, written)
    if isinstance(expected, date) or isinstance(written, date):
        return str(expected) == str(written)
    if isinstance(expected, (int, float, Decimal)) or isinstance(written, (int, float, Decimal)):
        return _same_number(expected, written)
    return bool(_as_plain(expected) == _as_plain(written))


def _same_moment(expected: Any, written: Any) -> bool:
    try:
        return bool(moment_of(expected) == moment_of(written))
    except (ValueError, TypeError):
        return False


def _same_number(expected: Any, written: Any) -> bool:
    """Text is a number when the other one is: keys of topics are text."""
    try:
        one, other = Decimal(str(expected)), Decimal(str(written))
    except (InvalidOperation, ValueError):
        return False
    if one.is_nan() or other.is_nan():
        return isnan(one) and isnan(other)
    if isinstance(expected, float) or isinstance(written, float):
        return isclose(float(one), float(other), rel_tol=NEAR)
    return bool(one == other)


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_map(written: list[Any]) -> Any:
    """Arrow gives a MAP as pairs."""
    return dict(written) if all(isinstance(each, tuple) and len(each) == 2 for each in written) else written


def _as_plain(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
