"""A request with many entries that have nothing to do with each other is handled as several with few.

    SERVES = Served(DeleteGroupsRequest, slices=Slices("groups_names", "results", is_set=True), ...)

1. Its handler is written for one request and needs no pauses of its own: it is called for SLICE_ENTRIES entries, then
   others have their turn, and it is called for the next ones. The answers become one, in the order of the request.
2. An entry that has too many entries itself is cut too (`within`), is handled alone, and its answers become one.
3. For APIs whose entries are judged and changed one by one anyway. What must be written down together, or is compared
   with each other (duplicates that are an error), is paced by its handler (pacing.py).
4. The first answer that is an error as a whole is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.schema import ArrayOf, Struct, StructType

SLICE_ENTRIES: Final = 250

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True)
class Slices:
    """Which list of a request is cut, and which one of its answer is joined again; None where the answer has an entry
    of its own for each part."""

    entries: str
    answers: str | None
    within: Slices | None = None
    is_set: bool = False
    """Whether an entry that comes again is left out: entries are names."""


class Slice(NamedTuple):
    """A part of a request. `depth` is how many of its outermost entries go on with the last ones of the part before."""

    request: Struct
    depth: int


def cut(whole: Struct, slices: Slices) -> Iterator[Slice]:
    """Parts of about SLICE_ENTRIES entries, one at least."""
    entries = getattr(whole, slices.entries)
    if entries is None:
        yield Slice(whole, 0)
        return
    chosen: list[object] = []
    weight, is_first = 0, True
    for entry in dict.fromkeys(entries) if slices.is_set else entries:
        weighs = _weight(entry)
        if slices.within is not None and weighs > SLICE_ENTRIES:
            if chosen:
                yield Slice(_with(whole, slices.entries, chosen), 0)
            chosen, weight, is_first = [], 0, False
            for number, part in enumerate(cut(entry, slices.within)):
                yield Slice(_with(whole, slices.entries, [part.request]), part.depth + 1 if number else 0)
            continue
        chosen.append(entry)
        weight += weighs
        if weight >= SLICE_ENTRIES:
            yield Slice(_with(whole, slices.entries, chosen), 0)
            chosen, weight, is_first = [], 0, False
    if chosen or is_first:
        yield Slice(_with(whole, slices.entries, chosen), 0)


def join(answer: Struct, more: Struct, slices: Slices, depth: int) -> None:
    """Add the answers to the next part."""
    if slices.answers is None:
        return
    mine, theirs = getattr(answer, slices.answers), getattr(more, slices.answers)
    if depth and mine and theirs and slices.within is not None and slices.within.answers is not None:
        join(mine[-1], theirs[0], slices.within, depth - 1)
        theirs = theirs[1:]
    mine += theirs


def _with(whole: S, name: str, entries: list[object]) -> S:
    values = {field.name: getattr(whole, field.name) for field in whole.fields}
    return type(whole)(**{**values, name: entries})


def _weight(entry: object) -> int:
    """How many entries it is, with those within it."""
    if not isinstance(entry, Struct):
        return 1
    weight = 1
    for field in entry.fields:
        if isinstance(field.type, ArrayOf):
            entries = getattr(entry, field.name) or ()
            weight += sum(map(_weight, entries)) if isinstance(field.type.element, StructType) else len(entries)
    return weight
