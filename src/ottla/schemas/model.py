"""The values that a schema is made of, whatever its format.

    SchemaText     kind, text and the schemas it refers to: what is registered, and what has an id Reference      a
    schema that another one uses by a name: a type in Avro, a $ref in JSON Schema, an import in Protobuf Problem
    one reason why a schema cannot read what another one wrote

1. `kind` has Confluent's words: AVRO, JSON, PROTOBUF.
2. Metadata and rules are kept as they came: they are the business of serializers, and part of what has an id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ottla import bounded_json
from ottla.budget import Budget
from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""


class InvalidSchema(OttlaError, ValueError):
    """This is not a schema of its kind, or one it refers to is missing.
    The message says what is wrong and where."""


class SchemaLibraryMissing(OttlaError):
    """A library that reads schemas is not installed. Install it: pip install 'ottla[registry]'."""


class Reference(NamedTuple):
    """A schema that another one uses: by this name, and it is that version of that subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaText:
    """A schema as it is registered. `metadata` and `rule_set` are JSON text, "" where there is none."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str = ""
    rule_set: str = ""


class WholeSchema(NamedTuple):
    """The text of a schema and the texts of all that it refers to, each before those that use it."""

    text: str
    imports: Mapping[str, str]


class Problem(NamedTuple):
    """Why a reader cannot read what a writer wrote: Confluent's name of the difference, where, and a sentence."""

    name: str
    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{{errorType:'{self.name}', description:'{self.sentence}', path:'{self.path}'}}"


class SchemaFormat(Protocol):
    """One kind of schema. A parsed schema is whatever the format makes of it; only the format looks into it."""

    def parse(self, text: str, imports: Mapping[str, str]) -> Any:
        """The schema, with the texts of all it uses, each before those that use it. InvalidSchema when it is none."""

    def canonical(self, parsed: Any) -> str:
        """The text that is stored: the same for texts that differ only in how they are written down."""

    def normalized(self, parsed: Any) -> str:
        """The same for schemas that differ only in the order of what has no order."""

    def identity(self, text: str) -> str:
        """What two stored texts have in common when they are the same schema; cheap, for every stored schema."""

    def problems(self, reader: Any, writer: Any, budget: Budget) -> Sequence[Problem]:
        """Why `reader` cannot read all that `writer` may have written; empty when it can. BudgetExceeded when that
        takes too many steps, RecursionError when they are nested too deeply."""


def format_of(kind: str) -> SchemaFormat:
    """The format of this kind; its library is loaded now. KeyError when there is no such kind."""
    if kind == AVRO:
        from ottla.schemas.avro.format import AvroFormat

        return AvroFormat()
    if kind == JSON:
        from ottla.schemas.json_schema.format import JsonSchemaFormat

        return JsonSchemaFormat()
    if kind == PROTOBUF:
        from ottla.schemas.protobuf.format import ProtobufFormat

        return ProtobufFormat()
    raise KeyError(kind)


def read_json(text: str) -> Any:
    """The value of a text; InvalidSchema when it is no JSON."""
    try:
        return bounded_json.read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"it is no JSON: {error}") from None


def write_json(value: object) -> str:
    """Compact, in the order of the value."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
