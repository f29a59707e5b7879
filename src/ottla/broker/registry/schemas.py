"""Schemas of the registry, parsed: with what they refer to, remembered, and large ones apart from the loop.

Work is a generator. It yields None where a pause is possible, and a function where something long is to be computed by
somebody else; it is sent what the function returned.

How long a comparison takes is not to be seen from the size of two schemas. So it is begun with a few steps at once
(budget.py), and when they do not suffice it is made apart, within the budget of the whole request; above that the
answer is 422, and the same where schemas are nested too deeply.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import partial
from typing import Final, TypeAlias, TypeVar

from ottla.broker.registry.errors import RegistryError, invalid_schema, malformed
from ottla.broker.registry.requests import REFERENCES_MAX
from ottla.broker.registry.state import RegistryState, digest_of
from ottla.budget import Budget, BudgetExceeded
from ottla.errors import OttlaError
from ottla.schemas.model import (
    InvalidSchema,
    Problem,
    Reference,
    SchemaFormat,
    SchemaLibraryMissing,
    SchemaText,
    format_of,
)

T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], object] | None, object, T]

PARSED_MAX: Final = 1_000
PARSED_TEXT_MAX: Final = 16 << 20
APART_CHARACTERS: Final = 2_048
AT_ONCE_STEPS: Final = 10_000
COMPARE_STEPS: Final = 3_000_000  # of all comparisons of one request: a second or two of one core, apart


def comparing() -> Budget:
    """What the comparisons of one request may use together."""
    return Budget(COMPARE_STEPS, "the comparison")


class Schemas:
    """Parses schemas; `state` is asked for what they refer to."""

    def __init__(self, state: Callable[[], RegistryState]) -> None:
        self._state = state
        self._parsed: OrderedDict[SchemaText, object] = OrderedDict()
        self._parsed_text = 0

    def parse(self, schema: SchemaText) -> Steps[object]:
        """What the format makes of it; RegistryError when it is no schema."""
        known = self._parsed.get(schema)
        if known is not None:
            self._parsed.move_to_end(schema)
            return known
        try:
            imports = self.imports_of(schema)
            work = partial(_format(schema.kind).parse, schema.text, imports)
            is_long = len(schema.text) + sum(map(len, imports.values())) > APART_CHARACTERS
            parsed: object = (yield work) if is_long else work()
        except InvalidSchema as error:
            raise invalid_schema(error.brief) from None
        except RecursionError:
            raise invalid_schema("it is nested too deeply") from None
        self._remember(schema, parsed)
        return parsed

    def problems(self, reader: SchemaText, writer: SchemaText, budget: Budget) -> Steps[list[Problem]]:
        """Why `reader` cannot read what `writer` wrote; RegistryError when that takes more than the budget."""
        if reader.kind != writer.kind:
            return [Problem("SCHEMA_TYPE_CHANGED", "/", f"{writer.kind} cannot be read as {reader.kind}")]
        new = yield from self.parse(reader)
        old = yield from self.parse(writer)
        work = partial(_format(reader.kind).problems, new, old)
        try:
            try:
                begun = Budget(min(AT_ONCE_STEPS, budget.left), budget.work)
                found: object = work(begun)
                budget.spend(begun.steps - begun.left)
            except BudgetExceeded:
                found = yield partial(work, budget)
        except BudgetExceeded as error:
            raise malformed(f"The schemas cannot be compared: {error}. Make them smaller or less nested.") from None
        except RecursionError:
            raise malformed("The schemas cannot be compared: they are nested too deeply.") from None
        assert isinstance(found, list), "formats list problems"
        return found

    def canonical(self, schema: SchemaText, *, is_normalized: bool) -> Steps[SchemaText]:
        """The schema in the form in which it is stored, with the versions of its references fixed."""
        schema = SchemaText(schema.kind, schema.text, self._fixed(schema.references), schema.metadata, schema.rule_set)
        parsed = yield from self.parse(schema)
        kind = _format(schema.kind)
        write = partial(_written, schema, partial(kind.normalized if is_normalized else kind.canonical, parsed))
        try:
            made = (yield write) if len(schema.text) > APART_CHARACTERS else write()
        except RecursionError:
            raise invalid_schema("it is nested too deeply") from None
        assert isinstance(made, SchemaText), "this is what is written"
        return made

    def imports_of(self, schema: SchemaText) -> dict[str, str]:
        """The texts of all that a schema refers to, each before those that use it."""
        found: dict[str, str] = {}
        self._collect(schema, found, ())
        return found

    def _collect(self, schema: SchemaText, found: dict[str, str], around: tuple[Reference, ...]) -> None:
        for reference in schema.references:
            if reference.name in found:
                continue
            if reference in around or len(around) + len(found) >= REFERENCES_MAX:
                raise InvalidSchema(f"it refers to itself, or to more than {REFERENCES_MAX} others")
            target = self._target(reference)
            self._collect(target, found, (*around, reference))
            found[reference.name] = target.text

    def _target(self, reference: Reference) -> SchemaText:
        stored = self._state().subjects.get(reference.subject, {}).get(reference.version)
        if stored is None:
            where = f"version {reference.version} of subject {reference.subject}"
            raise InvalidSchema(f"reference {reference.name!r}: there is no {where}")
        return stored.schema

    def _fixed(self, references: tuple[Reference, ...]) -> tuple[Reference, ...]:
        return tuple(each if each.version > 0 else self._newest(each) for each in references)

    def _newest(self, reference: Reference) -> Reference:
        versions = self._state().versions(reference.subject)
        return reference._replace(version=versions[-1].version if versions else 0)

    def _remember(self, schema: SchemaText, parsed: object) -> None:
        self._parsed[schema] = parsed
        self._parsed_text += len(schema.text)
        while len(self._parsed) > PARSED_MAX or (self._parsed_text > PARSED_TEXT_MAX and len(self._parsed) > 1):
            forgotten, _ = self._parsed.popitem(last=False)
            self._parsed_text -= len(forgotten.text)

    def forget(self) -> None:
        """References may lead elsewhere now: something was permanently deleted, or the topic was read anew."""
        self._parsed.clear()
        self._parsed_text = 0


def _written(schema: SchemaText, write: Callable[[], str]) -> SchemaText:
    """The schema with another text, and the digests of both known from now on."""
    made = SchemaText(schema.kind, write(), schema.references, schema.metadata, schema.rule_set)
    digest_of(schema)
    digest_of(made)
    return made


def _format(kind: str) -> SchemaFormat:
    try:
        return format_of(kind)
    except KeyError:
        raise invalid_schema(f"Invalid schema type {kind}") from None
    except SchemaLibraryMissing as error:
        raise RegistryError(501, str(error)) from None
    except OttlaError as error:
        raise invalid_schema(str(error)) from None
