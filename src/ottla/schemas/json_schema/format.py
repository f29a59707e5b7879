"""JSON Schema among the formats: jsonschema says whether a text is a schema, referencing finds what a $ref names.

1. A schema without $schema is of draft 7, as in Confluent's registry.
2. A $ref leads into the schema itself or into one that it refers to, by the name of the reference. Nothing is ever
   fetched: a $ref to anything else is an error when the schema is registered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.budget import Budget, BudgetExceeded
from ottla.light_dataclasses import dataclass
from ottla.schemas.json_schema.compatibility import problems
from ottla.schemas.json_schema.nodes import LOOKUP_STEPS, Node, is_modern
from ottla.schemas.model import InvalidSchema, Problem, SchemaLibraryMissing, read_json, write_json

_DATA_KEYWORDS: Final = frozenset({"const", "enum", "default", "examples"})
REFS_MAX: Final = 10_000
PARSE_STEPS: Final = 2_000_000


@dataclass(frozen=True)
class ParsedJsonSchema:
    value: Any
    root: Node


class JsonSchemaFormat:
    def parse(self, text: str, imports: Mapping[str, str]) -> ParsedJsonSchema:
        value = read_json(text)
        others = {name: read_json(imported) for name, imported in imports.items()}
        budget = Budget(PARSE_STEPS, "reading the schema")
        try:
            _count(value, budget)
            return _parsed(value, others, budget)
        except BudgetExceeded as error:
            raise InvalidSchema(str(error)) from None
        except RecursionError:
            raise InvalidSchema("it is nested too deeply") from None

    def canonical(self, parsed: ParsedJsonSchema) -> str:
        return write_json(parsed.value)

    def normalized(self, parsed: ParsedJsonSchema) -> str:
        return write_json(_in_order(parsed.value))

    def identity(self, text: str) -> str:
        return text

    def problems(self, reader: ParsedJsonSchema, writer: ParsedJsonSchema, budget: Budget) -> Sequence[Problem]:
        return problems(reader.root, writer.root, budget)


def _parsed(value: Any, others: Mapping[str, Any], budget: Budget) -> ParsedJsonSchema:
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft7Validator, validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7, specification_with
    except ImportError:
        raise SchemaLibraryMissing("jsonschema reads JSON schemas") from None
    if not isinstance(value, dict | bool):
        raise InvalidSchema("a JSON schema is an object, true or false")

    def resource(contents: Any) -> Any:
        dialect = contents.get("$schema", "") if isinstance(contents, dict) else ""
        return specification_with(dialect, default=DRAFT7).create_resource(contents)

    try:
        validator_for(value, default=Draft7Validator).check_schema(value)
        base = str(value.get("$id", "")) if isinstance(value, dict) else ""
        pairs = [(name, resource(each)) for name, each in others.items()]
        # Crawled once, or every look for an anchor would do it.
        registry = Registry().with_resources([*pairs, (base, resource(value))]).crawl()
        resolver = registry.resolver(base)
        for ref in _refs(value):
            budget.spend(LOOKUP_STEPS + len(ref))
            resolver.lookup(ref)
    except SchemaError as error:
        raise InvalidSchema(f"it is no JSON schema: {error.message} at {error.json_path}") from None
    except Unresolvable as error:
        raise InvalidSchema(f"$ref {error.ref!r} leads nowhere; a schema that it names must be a reference") from None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidSchema(f"it is no JSON schema: {error}") from None
    return ParsedJsonSchema(value, Node(value, resolver, is_modern(value)))


def _refs(value: Any) -> Iterator[str]:
    """Every $ref, of a schema whose $id is around it all; those under an $id of their own are found when compared."""
    left, count = [value], 0
    while left:
        each = left.pop()
        if isinstance(each, list):
            left.extend(each)
        elif isinstance(each, dict):
            if each is not value and "$id" in each:
                continue
            if isinstance(each.get("$ref"), str):
                count += 1
                if count > REFS_MAX:
                    raise InvalidSchema(f"it has more than {REFS_MAX} references")
                yield each["$ref"]
            left.extend(inner for name, inner in each.items() if name not in _DATA_KEYWORDS)


def _count(value: Any, budget: Budget) -> None:
    """Spend what jsonschema will need: it compares the items of lists that must be unique with each other, unless they
    can be sorted."""
    left = [value]
    while left:
        each = left.pop()
        budget.spend()
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            if not all(isinstance(item, str) for item in each):
                budget.spend(len(each) * len(each))
            left.extend(each)


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value
