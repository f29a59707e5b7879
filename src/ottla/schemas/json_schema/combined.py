"""oneOf, anyOf and allOf.

1. Both have one: each schema of the shorter list must be paired with one of the longer that accepts what it accepts. A
   sum (oneOf, anyOf) may grow, a product (allOf) may shrink. Anything may become anyOf. A product becomes a sum when
   one of its schemas fits one of the sum; a oneOf of several would have to refuse what fits two.
2. Only the reader has one: a sum must have a schema that accepts all that the writer's does, a product must consist of
   such.
3. Only the writer has one: all schemas of its sum, or one of its product, must be accepted by the reader; or what
   stands beside it is accepted already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.budget import Budget
from ottla.light_tuples import NamedTuple
from ottla.schemas.json_schema.nodes import Node, same_value
from ottla.schemas.model import Problem

if TYPE_CHECKING:
    from ottla.schemas.json_schema.compatibility import Comparison

WORDS: Final = ("allOf", "anyOf", "oneOf")


class Combined(NamedTuple):
    word: str
    schemas: list[Any]


def combined_of(node: Node) -> Combined | None:
    """What a schema combines; several words at once are a product of them."""
    found = [Combined(word, node.get(word)) for word in WORDS if node.get(word)]
    if len(found) < 2:
        return found[0] if found else None
    return Combined("allOf", [{each.word: each.schemas} for each in found])


def without_combined(node: Node) -> Node:
    """What stands beside it."""
    if not isinstance(node.value, dict):
        return node
    rest = {name: each for name, each in node.value.items() if name not in WORDS}
    return Node(rest, node.resolver, node.is_modern)


def compare_combined(comparison: Comparison, reader: Node, writer: Node, path: str) -> Iterator[Problem]:
    new, old = combined_of(reader), combined_of(writer)
    if new is not None and old is not None:
        yield from _compare_both(comparison, reader, writer, new, old, path)
    elif new is not None:
        yield from _only_reader(comparison, reader, writer, new, path)
    elif old is not None:
        yield from _only_writer(comparison, reader, writer, old, path)


def _only_reader(comparison: Comparison, reader: Node, writer: Node, new: Combined, path: str) -> Iterator[Problem]:
    fits = [comparison.fits(reader.of(each), writer, f"{path}/{new.word}") for each in new.schemas]
    if not (all(fits) if new.word == "allOf" else any(fits)):
        yield Problem("TYPE_CHANGED", f"{path}/{new.word}", "what was accepted has no place here")


def _only_writer(comparison: Comparison, reader: Node, writer: Node, old: Combined, path: str) -> Iterator[Problem]:
    fits = [comparison.fits(reader, writer.of(each), f"{path}/{old.word}") for each in old.schemas]
    if any(fits) if old.word == "allOf" else all(fits):
        return
    if not comparison.fits(reader, without_combined(writer), path):
        yield Problem("TYPE_CHANGED", f"{path}/{old.word}", "not all that was accepted has a place here")


def _compare_both(
    comparison: Comparison, reader: Node, writer: Node, new: Combined, old: Combined, path: str
) -> Iterator[Problem]:
    if old.word == "allOf" and (new.word == "anyOf" or (new.word == "oneOf" and len(new.schemas) == 1)):
        yield from _product_to_sum(comparison, reader, writer, new, old, path)
        return
    if not _may_become(old, new):
        yield Problem("COMBINED_TYPE_CHANGED", path, f"{old.word} became {new.word}")
        return
    choices, before = _distinct(new.schemas, comparison.budget), _distinct(old.schemas, comparison.budget)
    new_count, old_count = len(choices), len(before)
    if new.word == "allOf" and new_count > old_count:
        yield Problem("PRODUCT_TYPE_EXTENDED", f"{path}/allOf", "more is demanded than before")
    elif new.word != "allOf" and new_count < old_count:
        yield Problem("SUM_TYPE_NARROWED", f"{path}/{new.word}", "there are fewer choices than before")
    else:
        fits = [
            [comparison.fits(reader.of(one), writer.of(other), f"{path}/{new.word}") for one in choices]
            for other in before
        ]
        if _paired(fits, comparison.budget) < min(new_count, old_count):
            yield Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", f"{path}/{new.word}", "not all choices are accepted")


def _product_to_sum(
    comparison: Comparison, reader: Node, writer: Node, new: Combined, old: Combined, path: str
) -> Iterator[Problem]:
    where = f"{path}/{new.word}"
    pairs = [(one, other) for one in new.schemas for other in old.schemas]
    if not any(comparison.fits(reader.of(one), writer.of(other), where) for one, other in pairs):
        yield Problem("COMBINED_TYPE_SUBSCHEMAS_CHANGED", where, "what was demanded fits none of the choices")


def _may_become(old: Combined, new: Combined) -> bool:
    if old.word == new.word or new.word == "anyOf":
        return True
    if new.word == "oneOf":
        return len(old.schemas) == 1
    return len(old.schemas) == len(new.schemas) == 1


def _distinct(schemas: list[Any], budget: Budget) -> list[Any]:
    found: list[Any] = []
    for each in schemas:
        if not any(each is other or same_value(each, other, budget) for other in found):
            found.append(each)
    return found


def _paired(fits: list[list[bool]], budget: Budget) -> int:
    """How many rows can have a column of their own that fits: a maximum matching, by augmenting paths."""
    row_of: dict[int, int] = {}

    def has_place(row: int, tried: set[int]) -> bool:
        budget.spend(len(fits[row]))
        for column, is_fit in enumerate(fits[row]):
            if is_fit and column not in tried:
                tried.add(column)
                if column not in row_of or has_place(row_of[column], tried):
                    row_of[column] = row
                    return True
        return False

    return sum(has_place(row, set()) for row in range(len(fits)))
