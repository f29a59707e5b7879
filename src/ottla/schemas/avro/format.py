"""Avro among the formats: fastavro says whether a text is a schema, the rest is ours.

1. A schema may use named types of the schemas it refers to; their texts come along and are parsed before it.
2. What is stored is the text as Avro's own library writes it (canonical.py), so that texts which differ in spaces and
   in the order of attributes are one schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.budget import Budget
from ottla.light_dataclasses import dataclass
from ottla.schemas.avro.canonical import written
from ottla.schemas.avro.compatibility import problems
from ottla.schemas.avro.types import AvroType, Resolver
from ottla.schemas.model import InvalidSchema, Problem, SchemaLibraryMissing, read_json, write_json


@dataclass(frozen=True)
class ParsedAvro:
    """`value` is the schema as JSON, `type` the same with names resolved, `named` what fastavro needs to use it."""

    value: Any
    type: AvroType
    named: Mapping[str, Any]


class AvroFormat:
    def parse(self, text: str, imports: Mapping[str, str]) -> ParsedAvro:
        resolver, named = Resolver(), dict[str, Any]()
        for name, imported in imports.items():
            try:
                _check(read_avro(imported), named)
                resolver.resolve(read_avro(imported))
            except InvalidSchema as error:
                raise InvalidSchema(f"{name}, which it refers to: {error.detail}") from None
        value = read_avro(text)
        _check(value, named)
        try:
            return ParsedAvro(value, resolver.resolve(value), named)
        except RecursionError:
            raise InvalidSchema("it is nested too deeply") from None

    def canonical(self, parsed: ParsedAvro) -> str:
        return write_json(written(parsed.value))

    def normalized(self, parsed: ParsedAvro) -> str:
        return write_json(written(parsed.value, is_sorted=True))

    def identity(self, text: str) -> str:
        return text

    def problems(self, reader: ParsedAvro, writer: ParsedAvro, budget: Budget) -> Sequence[Problem]:
        return problems(reader.type, writer.type, budget)


def read_avro(text: str) -> Any:
    """A bare name such as string, without its quotes, is taken too: Java's registry does."""
    return text.strip() if text.strip().isidentifier() else read_json(text)


def _check(value: Any, named: dict[str, Any]) -> None:
    """Raise InvalidSchema unless this is a schema; its named types are added."""
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ImportError:
        raise SchemaLibraryMissing("fastavro reads Avro schemas") from None
    try:
        parse_schema(value, named_schemas=named)
    except UnknownType as error:
        raise InvalidSchema(f"the type {error.name!r} is not known; a schema that has it must be a reference") from None
    except (SchemaParseException, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidSchema(f"it is no Avro schema: {_words(error)}") from None


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
