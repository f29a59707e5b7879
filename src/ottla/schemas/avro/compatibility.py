"""Whether one Avro schema reads what another one wrote: the rules of Avro's specification, as its Java library applies
them.

1. Names are compared without their namespace, or by the reader's aliases.
2. A field that the writer does not have needs a default; one that the reader does not have is passed over. One that is
   two of the writer's, by its name and its aliases, is refused.
3. int becomes long, float, double; long becomes float, double; float becomes double; string and bytes become each
   other.
4. A symbol that the reader does not have needs the default of its enum.
5. Whatever the writer's union may hold, the reader must have a place for; a reader's union needs one branch that fits.
6. A record inside itself is compared once: while it is compared it counts as fitting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.budget import Budget
from ottla.schemas.avro.types import AvroField, AvroType
from ottla.schemas.model import Problem

PROMOTIONS: Final[dict[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
NAMED: Final = ("record", "enum", "fixed")
STEPS: Final = 5  # of comparing two types, beside what stands in them


def problems(reader: AvroType, writer: AvroType, budget: Budget) -> Sequence[Problem]:
    """Why `reader` cannot read what `writer` wrote; BudgetExceeded when that takes too many steps."""
    return list(_Comparison(budget).compare(reader, writer, "/"))


class _Comparison:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pairs: dict[tuple[int, int], bool] = {}  # those that are compared, or were, and whether they fit

    def compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Problem]:
        self._budget.spend(STEPS)
        if writer.kind == "union":
            yield from self._from_union(reader, writer, path)
        elif reader.kind == "union":
            if not any(self._fits(branch, writer) for branch in reader.branches):
                yield Problem("MISSING_UNION_BRANCH", path, f"the reader's union has no branch for {_word(writer)}")
        elif reader.kind != writer.kind:
            if reader.kind not in PROMOTIONS.get(writer.kind, ()):
                yield Problem("TYPE_MISMATCH", path, f"{_word(writer)} cannot be read as {_word(reader)}")
        elif reader.kind in ("array", "map"):
            assert reader.items is not None, "arrays and maps have items"
            assert writer.items is not None, "arrays and maps have items"
            inner = "items" if reader.kind == "array" else "values"
            yield from self.compare(reader.items, writer.items, f"{path.rstrip('/')}/{inner}")
        elif reader.kind in NAMED:
            yield from self._named(reader, writer, path)

    def _fits(self, reader: AvroType, writer: AvroType) -> bool:
        return next(self.compare(reader, writer, "/"), None) is None

    def _from_union(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Problem]:
        for index, branch in enumerate(writer.branches):
            if not self._fits(reader, branch):
                where = f"{path.rstrip('/')}/{index}"
                yield Problem("MISSING_UNION_BRANCH", where, f"the reader has no place for {_word(branch)}")

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Problem]:
        if reader.short_name != writer.short_name and writer.name not in reader.aliases:
            yield Problem("NAME_MISMATCH", f"{path.rstrip('/')}/name", f"{writer.name} is not {reader.name}")
        elif reader.kind == "enum":
            self._budget.spend(len(reader.symbols) + len(writer.symbols))
            known = frozenset(reader.symbols)
            missing = [each for each in writer.symbols if each not in known]
            if missing and reader.default is None:
                where = f"{path.rstrip('/')}/symbols"
                yield Problem("MISSING_ENUM_SYMBOLS", where, f"the reader lacks {', '.join(missing)} and a default")
        elif reader.kind == "fixed":
            if reader.size != writer.size:
                where = f"{path.rstrip('/')}/size"
                yield Problem("FIXED_SIZE_MISMATCH", where, f"{writer.size} bytes cannot be read as {reader.size}")
        else:
            yield from self._record(reader, writer, path)

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Problem]:
        pair = id(reader), id(writer)
        known = self._pairs.get(pair)
        if known is not None:
            if not known:
                yield Problem("TYPE_MISMATCH", path, f"{_word(writer)} cannot be read as {_word(reader)}")
            return
        self._pairs[pair] = True
        found = [problem for each in self._fields(reader, writer, path) for problem in each]
        self._pairs[pair] = not found
        self._budget.spend(len(found))
        yield from found

    def _fields(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Iterator[Problem]]:
        self._budget.spend(len(reader.fields) + len(writer.fields))
        by_name = {each.name: each for each in writer.fields}
        for index, field in enumerate(reader.fields):
            where = f"{path.rstrip('/')}/fields/{index}"
            self._budget.spend(len(field.aliases))
            written = [by_name[name] for name in dict.fromkeys((field.name, *field.aliases)) if name in by_name]
            if len(written) > 1:
                names = " and ".join(each.name for each in written)
                sentence = f"the field {field.name} is {names} of the writer: its aliases name both"
                yield iter([Problem("READER_FIELD_AMBIGUOUS", where, sentence)])
            elif written:
                yield self.compare(field.type, written[0].type, f"{where}/type")
            elif not field.has_default:  # the default of an enum is for symbols, not for fields
                yield iter([_missing(field, where)])


def _missing(field: AvroField, where: str) -> Problem:
    sentence = f"the field {field.name} has no default, and the writer does not have it"
    return Problem("READER_FIELD_MISSING_DEFAULT_VALUE", where, sentence)


def _word(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name}".strip()
