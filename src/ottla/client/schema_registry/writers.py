"""The schemas that wrote records: each record names its own by an id, in its first bytes.

1. What records name is asked for once, also when there is nothing by that id, or something of another kind. That makes
   the record a bad one (UnframedRecord); a registry that does not answer is a failure of the reader, not of the record.
2. So strangers' records cannot make a reader ask without end: UNKNOWN_MAX ids that mean nothing are remembered, and the
   registry's own cache has a bound.
"""

from __future__ import annotations

from typing import Final

from ottla.client.schema_registry.registry import SchemaNotFound, SchemaRegistry
from ottla.schemas.framing import UnframedRecord
from ottla.schemas.model import AVRO, SchemaText, WholeSchema

UNKNOWN_MAX: Final = 10_000


def whole_schema(registry: SchemaRegistry, schema: SchemaText) -> WholeSchema:
    """A schema with all that it refers to."""
    text = schema.text
    if schema.kind == AVRO and text.isidentifier():
        text = f'"{text}"'  # some registries give a bare name, such as string, without its quotes
    return WholeSchema(text, registry.imports(schema))


class WriterSchemas:
    """The schemas of one kind that records name by their ids."""

    def __init__(self, registry: SchemaRegistry, kind: str) -> None:
        self._registry = registry
        self._kind = kind
        self._unknown: dict[int, str] = {}

    def named(self, schema_id: int) -> WholeSchema:
        """The schema with this id; UnframedRecord when there is none that a record could name."""
        if schema_id in self._unknown:
            raise UnframedRecord(self._unknown[schema_id])
        try:
            schema = self._registry.schema(schema_id)
            if schema.kind == self._kind:
                return whole_schema(self._registry, schema)
            why = f"it names schema {schema_id}, which is {schema.kind}"
        except SchemaNotFound as error:
            why = f"it names a schema that is not there: {error.detail}"
        if len(self._unknown) < UNKNOWN_MAX:
            self._unknown[schema_id] = why
        raise UnframedRecord(why)
