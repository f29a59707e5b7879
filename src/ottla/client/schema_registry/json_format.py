"""JSON with a registry: values of Python types, or dicts, checked against their schema (jsonschema).

    JsonSerializer(Click, "http://127.0.0.1:8081")
    JsonDeserializer("http://127.0.0.1:8081", Click)

A value is checked when it is written, unless `validate=False`. What is read is checked by the type it becomes.
"""

from __future__ import annotations

import json
from typing import Any

from ottla.client.schema_registry.json_types import json_schema
from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.client.schema_registry.serde import RegistryDeserializer, RegistrySerializer
from ottla.client.schema_registry.values import from_plain, to_plain
from ottla.client.serializers import SerializationFailed
from ottla.schemas.framing import FRAME_BYTES
from ottla.schemas.model import JSON, SchemaLibraryMissing, SchemaText


class JsonSerializer(RegistrySerializer):
    """`schema` is a type with fields, the text of a schema, or a SchemaText with references."""

    def __init__(
        self,
        schema: type | str | SchemaText,
        registry: SchemaRegistry | str,
        *,
        validate: bool = True,
        is_closed: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(registry, **more)
        if isinstance(schema, str):
            schema = SchemaText(JSON, schema)
        self._schema = (
            schema if isinstance(schema, SchemaText) else SchemaText(JSON, json_schema(schema, is_closed=is_closed))
        )
        self._validate = validate

    def schema(self) -> SchemaText:
        return self._schema

    def prepare(self, schema: SchemaText) -> Any:
        return _validator(schema, self.registry.imports(schema)) if self._validate else None

    def encode(self, value: Any, prepared: Any) -> bytes:
        plain = to_plain(value, is_json=True)
        if prepared is not None and (problem := next(prepared.iter_errors(plain), None)) is not None:
            raise SerializationFailed(f"the value does not fit its schema: {problem.message} at {problem.json_path}")
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()


def _validator(schema: SchemaText, imports: dict[str, str]) -> Any:
    try:
        from jsonschema.validators import Draft7Validator, validator_for
        from referencing import Registry
        from referencing.jsonschema import DRAFT7, specification_with
    except ImportError:
        raise SchemaLibraryMissing("jsonschema checks values") from None
    value = json.loads(schema.text)
    others = {name: json.loads(text) for name, text in imports.items()}
    resources = [
        (name, specification_with(each.get("$schema", ""), default=DRAFT7).create_resource(each))
        for name, each in others.items()
    ]
    kind = validator_for(value, default=Draft7Validator)
    return kind(value, registry=Registry().with_resources(resources))


class JsonDeserializer(RegistryDeserializer):
    """`kind` is the type of the values; without one they are dicts."""

    def __init__(self, registry: SchemaRegistry | str, kind: type | None = None) -> None:
        super().__init__(registry)
        self._kind = kind

    def prepare(self, schema_id: int) -> Any:
        schema = self.registry.schema(schema_id)
        if schema.kind != JSON:
            raise SerializationFailed(f"schema {schema_id} is {schema.kind}, not JSON")
        return schema

    def decode(self, data: bytes, prepared: Any) -> Any:
        try:
            value = json.loads(data[FRAME_BYTES:])
        except ValueError as error:
            raise SerializationFailed(f"the record is no JSON: {error}") from None
        return value if self._kind is None else from_plain(self._kind, value, is_json=True)
