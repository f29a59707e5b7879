"""Rules that records must pass, as SQL. Spark's pipelines have none; these are ours.

A dataset with rules becomes two views:

    valid__checked      its rows, and the column _ottla_broken: the first rule that the row breaks, or NULL
    valid               the rows that break none, without that column

and one flow, when a rule wants dead letters: valid__dead, from valid__checked to the pipeline's dead letters.

1. The first rule that a row breaks decides, in the order of the file. A condition that is NULL is broken.
2. `fail` ends the run: the query raises, and names the rule and the row.
3. A value that cannot be read breaks the rule `readable`, before all others; the reason is in the column
   _ottla_unreadable (topic_columns.py). What a dead letter is made of: dead_letters.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.light_dataclasses import dataclass, field
from ottla.spark.pipelines.definition import Expectation

BROKEN: Final = "_ottla_broken"
RAW_KEY: Final = "_ottla_key"
RAW_VALUE: Final = "_ottla_value"
RAW_HEADERS: Final = "_ottla_headers"
HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
UNREADABLE: Final = "_ottla_unreadable"
READABLE: Final = "readable"
# Where a record of a topic came from; sinks do not write these into JSON.
ORIGIN: Final = ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
# What a change in a database was; not written either, when a source has an envelope.
CHANGE: Final = ("_op", "_deleted")
HEADERS: Final = {
    "ottla.dead.pipeline": "the pipeline",
    "ottla.dead.step": "the source or step whose rule was broken",
    "ottla.dead.rule": "the rule's name",
    "ottla.dead.reason": "the rule's condition, or why the value could not be read",
    "ottla.dead.topic": "the topic that the record came from",
    "ottla.dead.partition": "its partition",
    "ottla.dead.offset": "its offset",
    "ottla.dead.timestamp": "its time",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules of one dataset, in their order, that of being readable first."""

    pipeline: str
    dataset: str
    expect: Mapping[str, Expectation]
    unreadable: str | None = None  # the column with the reason why a value cannot be read
    bad_records: str = "fail"
    noted: Mapping[str, str] = field(default_factory=dict)  # conditions that are counted and break nothing

    def __bool__(self) -> bool:
        return bool(self.expect) or self.unreadable is not None

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [*([READABLE] if self.unreadable is not None else []), *self.expect]

    @property
    def dead(self) -> list[str]:
        """The rules whose records go to the dead letters."""
        first = [READABLE] if self.unreadable is not None and self.bad_records == "dead_letter" else []
        return first + [name for name, rule in self.expect.items() if rule.action == "dead_letter"]

    def verdict(self) -> str:
        """SQL for the first rule that a row breaks."""
        cases = [
            f"WHEN NOT coalesce(({rule.condition}), false) THEN {self._consequence(name, rule.action)}"
            for name, rule in self.expect.items()
        ]
        if self.unreadable is not None:
            unreadable = f"{self.unreadable} IS NOT NULL"
            cases.insert(0, f"WHEN {unreadable} THEN {self._consequence(READABLE, self.bad_records)}")
        return f"CASE {' '.join(cases)} END"

    def is_dead(self) -> str:
        """SQL: whether a row belongs to the dead letters."""
        return f"{BROKEN} IN ({', '.join(map(quoted, self.dead))})"

    def reason(self) -> str:
        """SQL: why, for the rule in BROKEN."""
        cases = [f"WHEN {quoted(name)} THEN {self._why(name)}" for name in self.dead]
        return f"CASE {BROKEN} {' '.join(cases)} END"

    def _why(self, name: str) -> str:
        """SQL: the reason of one rule."""
        if name == READABLE and self.unreadable is not None:
            return self.unreadable
        return quoted(self.expect[name].condition)

    def _consequence(self, name: str, action: str) -> str:
        if action != "fail":
            return quoted(name)
        begin = quoted(f"pipeline {self.pipeline}: a record breaks the rule {name} of {self.dataset} (")
        return f"raise_error(concat({begin}, {self._why(name)}, '): ', to_json(struct(*))))"

    def known(self) -> dict[str, str]:
        """The headers that do not depend on where a record came from, each with its SQL."""
        return {
            "ottla.dead.pipeline": quoted(self.pipeline),
            "ottla.dead.step": quoted(self.dataset),
            "ottla.dead.rule": BROKEN,
            "ottla.dead.reason": self.reason(),
        }


def headers(values: Mapping[str, str]) -> str:
    """SQL for the headers column: those whose value is not NULL."""
    pairs = [
        f"named_struct('key', {quoted(name)}, 'value', CAST(CAST({value} AS STRING) AS BINARY))"
        for name, value in values.items()
    ]
    return f"filter(array({', '.join(pairs)}), header -> header.value IS NOT NULL)"


def quoted(text: str) -> str:
    """A SQL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
