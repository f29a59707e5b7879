"""Avro with a registry: values of Python types, or dicts, written by fastavro.

AvroSerializer(Click, "http://127.0.0.1:8081")              the schema is made of the type
AvroSerializer('{"type": "record", ...}', registry)         or given; values are dicts, or anything with fields
AvroDeserializer("http://127.0.0.1:8081", Click)            values of the type; dicts without one
"""

from __future__ import annotations

import io
import json
from typing import Any

from ottla.client.schema_registry.avro_types import avro_schema
from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.client.schema_registry.serde import RegistryDeserializer, RegistrySerializer
from ottla.client.schema_registry.values import from_plain, to_plain
from ottla.schemas.framing import FRAME_BYTES
from ottla.schemas.model import AVRO, SchemaLibraryMissing, SchemaText


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise SchemaLibraryMissing("fastavro writes and reads Avro") from None
    return fastavro


def _parsed(registry: SchemaRegistry, schema: SchemaText) -> Any:
    named: dict[str, Any] = {}
    parse = _fastavro().parse_schema
    for text in registry.imports(schema).values():
        parse(json.loads(text), named_schemas=named)
    return parse(json.loads(schema.text), named_schemas=named)


class AvroSerializer(RegistrySerializer):
    """`schema` is a type with fields, the text of a schema, or a SchemaText with references."""

    def __init__(
        self, schema: type | str | SchemaText, registry: SchemaRegistry | str, *, namespace: str = "", **more: Any
    ) -> None:
        super().__init__(registry, **more)
        if isinstance(schema, str):
            schema = SchemaText(AVRO, schema)
        self._schema = (
            schema if isinstance(schema, SchemaText) else SchemaText(AVRO, avro_schema(schema, namespace=namespace))
        )

    def schema(self) -> SchemaText:
        return self._schema

    def prepare(self, schema: SchemaText) -> Any:
        return _parsed(self.registry, schema)

    def encode(self, value: Any, prepared: Any) -> bytes:
        written = io.BytesIO()
        _fastavro().schemaless_writer(written, prepared, to_plain(value))
        return written.getvalue()


class AvroDeserializer(RegistryDeserializer):
    """`kind` is the type of the values: fields that were not written have its defaults, those it does not have are
    passed over. `schema` is the schema to read into, where it is not the writer's."""

    def __init__(self, registry: SchemaRegistry | str, kind: type | None = None, *, schema: str | None = None) -> None:
        super().__init__(registry)
        self._kind = kind
        self._reader = None if schema is None else _fastavro().parse_schema(json.loads(schema))

    def prepare(self, schema_id: int) -> Any:
        return _parsed(self.registry, self.registry.schema(schema_id))

    def decode(self, data: bytes, prepared: Any) -> Any:
        value = _fastavro().schemaless_reader(io.BytesIO(data[FRAME_BYTES:]), prepared, self._reader)
        return value if self._kind is None else from_plain(self._kind, value)
