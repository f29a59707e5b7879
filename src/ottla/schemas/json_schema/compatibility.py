"""Whether one JSON schema accepts all that another one accepts: Confluent's rules, keyword by keyword.

1. What a content model leaves open matters most. In an open one (additionalProperties is not said) anything may have
   been written under any name, so a property cannot be added with a type of its own, and can be removed. In a closed
   one (additionalProperties: false) it is the other way round. What patternProperties or a schema of
   additionalProperties cover is compared with that.
2. A default makes up for a property that becomes required.
3. oneOf, anyOf and allOf are compared by pairing their schemas.
4. A keyword that has no rule here (if, contains, propertyNames, ...) must stay as it is, or go: in doubt it is no.
   unevaluatedProperties and unevaluatedItems are what additionalProperties and additionalItems are; beside something
   that they see through (allOf, $ref, ...) the whole schema must stay as it is, or they must go.
5. Two schemas are compared once, so schemas that contain themselves come to an end.
6. Patterns are matched by our own engine, which no pattern makes explode (patterns/); one that it cannot read (it looks
   ahead, or back) covers nothing.
7. All of it is counted: a comparison that takes more steps than its budget ends with BudgetExceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.budget import Budget
from ottla.errors import InvalidRegularExpression
from ottla.patterns.patterns import Automaton, search_pattern
from ottla.schemas.json_schema.arrays import compare_arrays
from ottla.schemas.json_schema.combined import combined_of, compare_combined, without_combined
from ottla.schemas.json_schema.limits import compare_limits
from ottla.schemas.json_schema.nodes import (
    Node,
    is_same,
    same_value,
    sees_through,
    with_ref_as_product,
    without_unevaluated,
)
from ottla.schemas.json_schema.objects import compare_objects
from ottla.schemas.model import Problem

_ANNOTATIONS: Final = """
    $schema $id id $comment $anchor $vocabulary $defs definitions title description default examples format deprecated
    readOnly writeOnly contentEncoding contentMediaType contentSchema connect.type connect.index
"""
_COMPARED: Final = """
    $ref type enum const not allOf anyOf oneOf maxLength minLength pattern maximum minimum exclusiveMaximum
    exclusiveMinimum multipleOf maxItems minItems uniqueItems items prefixItems additionalItems maxProperties
    minProperties required properties patternProperties additionalProperties dependencies dependentRequired
    dependentSchemas unevaluatedProperties unevaluatedItems
"""
ANNOTATIONS: Final = frozenset(_ANNOTATIONS.split())
COMPARED: Final = frozenset(_COMPARED.split())
STEPS: Final = 20  # of comparing two schemas, beside what stands in them
COMPILED_STEPS: Final = 10  # for every character of a pattern


def problems(reader: Node, writer: Node, budget: Budget) -> Sequence[Problem]:
    """Why not everything that `writer` accepts is accepted by `reader`."""
    return Comparison(budget).compare(reader, writer, "#")


class Comparison:
    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._patterns: dict[str, Automaton | None] = {}
        self._known: dict[tuple[int, int], list[Problem]] = {}
        self._held: list[Node] = []  # so that no id is used twice

    def compare(self, reader: Node, writer: Node, path: str) -> list[Problem]:
        reader, writer = reader.followed(self.budget), writer.followed(self.budget)
        self.budget.spend(STEPS + _size(reader) + _size(writer))
        pair = id(reader.value), id(writer.value)
        if pair in self._known and isinstance(reader.value, dict):
            self.budget.spend(len(self._known[pair]))  # whoever asks repeats them all
            return self._known[pair]
        self._held += [reader, writer]
        self._known[pair] = []
        self._known[pair] = found = list(self._compare(reader, writer, path))
        self.budget.spend(len(found))
        return found

    def fits(self, reader: Node, writer: Node, path: str) -> bool:
        return not self.compare(reader, writer, path)

    def covers(self, pattern: str, name: str) -> bool:
        """Whether a pattern of patternProperties matches a name; one that cannot be read covers nothing."""
        self.budget.spend()
        if pattern not in self._patterns:
            self.budget.spend(COMPILED_STEPS * len(pattern))
            try:
                self._patterns[pattern] = search_pattern(pattern)
            except InvalidRegularExpression:
                self._patterns[pattern] = None
        automaton = self._patterns[pattern]
        if automaton is None:
            return False
        self.budget.spend(len(name))
        return automaton.matches(name, self.budget)

    def _compare(self, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
        if is_open(reader.value) or writer.value is False:
            return
        if reader.value is False or is_open(writer.value):
            yield Problem("TYPE_CHANGED", path, "the reader does not accept all that was accepted")
            return
        if sees_through(reader):
            if not is_same(reader, writer, self.budget):
                yield Problem("KEYWORD_CHANGED", path, "what unevaluated keywords refuse here cannot be compared")
            return
        reader, writer = with_ref_as_product(reader), with_ref_as_product(without_unevaluated(writer))
        reader_has, writer_has = combined_of(reader), combined_of(writer)
        if reader_has or writer_has:
            yield from compare_combined(self, reader, writer, path)
            if reader_has:
                yield from self._compare_beside(without_combined(reader), writer, path)
            return
        yield from self._compare_keywords(reader, writer, path)

    def _compare_beside(self, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
        """What the reader demands beside its choices, the writer demands beside its own, or in each of them."""
        if is_open(reader.value):
            return
        found = self.compare(reader, without_combined(writer), path)
        if found and not (combined_of(writer) and not list(compare_combined(self, reader, writer, path))):
            yield from found

    def _compare_keywords(self, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
        types = list(_compare_types(reader, writer, path, self.budget))
        yield from types
        if types:
            return
        yield from _compare_values(reader, writer, path, self.budget)
        yield from compare_limits(reader, writer, path)
        yield from compare_objects(self, reader, writer, path)
        yield from compare_arrays(self, reader, writer, path)
        yield from self._compare_not(reader, writer, path)
        for name in reader.value:
            is_ours = name in COMPARED or name in ANNOTATIONS
            if not is_ours and not same_value(reader.value[name], writer.get(name), self.budget):
                yield Problem("KEYWORD_CHANGED", f"{path}/{name}", f"{name} was added or changed")

    def _compare_not(self, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
        if (refused := reader.get("not")) is None:
            return
        before = writer.get("not")
        # What is refused may only become less.
        if before is None or not self.fits(writer.of(before), reader.of(refused), f"{path}/not"):
            yield Problem("NOT_TYPE_EXTENDED", f"{path}/not", "more is refused than before")


def _size(node: Node) -> int:
    return len(node.value) if isinstance(node.value, dict) else 1


def is_open(value: Any) -> bool:
    """Whether a schema accepts everything."""
    return value is True or (isinstance(value, dict) and value.keys() <= ANNOTATIONS)


def _types(node: Node) -> frozenset[str] | None:
    found = node.get("type")
    if found is None:
        return None
    return frozenset([found] if isinstance(found, str) else found)


def _compare_types(reader: Node, writer: Node, path: str, budget: Budget) -> Iterator[Problem]:
    wanted = _types(reader)
    if wanted is None:
        return
    written = _types(writer)
    if written is None:
        values = _values(writer, budget)
        if values is None or not all(any(_is_of(value, kind) for kind in wanted) for value in values):
            yield Problem("TYPE_NARROWED", f"{path}/type", f"only {_words(wanted)} is accepted, and anything was")
        return
    lost = {kind for kind in written if kind not in wanted and not (kind == "integer" and "number" in wanted)}
    if lost:
        name = "TYPE_CHANGED" if lost == written else "TYPE_NARROWED"
        yield Problem(name, f"{path}/type", f"{_words(lost)} is not accepted any more")


def _words(kinds: frozenset[str] | set[str]) -> str:
    return " or ".join(sorted(kinds))


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_of(value: Any, kind: str) -> bool:
    return kind in _CHECKS and _CHECKS[kind](value)


def _values(node: Node, budget: Budget) -> list[Any] | None:
    """All that const and enum let pass together; None without either."""
    found: list[Any] | None = node.get("enum")
    if "const" not in node.value:
        return found
    only = node.value["const"]
    return [only] if found is None or any(same_value(only, each, budget) for each in found) else []


def _compare_values(reader: Node, writer: Node, path: str, budget: Budget) -> Iterator[Problem]:
    allowed = _values(reader, budget)
    if allowed is None:
        return
    written = _values(writer, budget)
    if written is None:
        yield Problem("ENUM_ARRAY_ADDED", f"{path}/enum", "only some values are accepted, and all were")
    elif lost := [value for value in written if not any(same_value(value, each, budget) for each in allowed)]:
        name = "ENUM_ARRAY_CHANGED" if len(lost) == len(written) else "ENUM_ARRAY_NARROWED"
        yield Problem(name, f"{path}/enum", f"{lost[0]!r} is not accepted any more")
