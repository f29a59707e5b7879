"""confluent_kafka.schema_registry.avro."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.client.schema_registry import avro
from ottla.compat.confluent_kafka.schema_registry.schema_registry_client import Schema, SchemaRegistryClient
from ottla.compat.confluent_kafka.schema_registry.serde import awaited_names, read_conf, subject_of, translated
from ottla.compat.confluent_kafka.serialization import Deserializer, SerializationContext, Serializer

__all__ = ["AvroDeserializer", "AvroSerializer"]
__getattr__ = awaited_names("avro")


def _text(schema: str | Schema | None) -> Schema | None:
    return Schema(schema) if isinstance(schema, str) else schema


def _record_name(schema: Schema) -> str | None:
    value = json.loads(schema.schema_str or "null")
    if not isinstance(value, dict) or "name" not in value:
        return None
    namespace = value.get("namespace")
    return f"{namespace}.{value['name']}" if namespace and "." not in value["name"] else str(value["name"])


class AvroSerializer(Serializer):
    """Writes dicts, or what `to_dict` makes dicts of."""

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        to_dict: Callable[[Any, SerializationContext | None], Any] | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        schema = _text(schema_str)
        self._conf = read_conf(conf)
        if schema is None and not self._conf["use.latest.version"]:
            raise ValueError("a schema is needed, or use.latest.version")
        self._to_dict = to_dict
        self._name = None if schema is None else _record_name(schema)
        self._inner = avro.AvroSerializer(
            schema.text() if schema is not None else '"null"',
            schema_registry_client.registry,
            register=self._conf["auto.register.schemas"],
            latest=self._conf["use.latest.version"],
            normalize=self._conf["normalize.schemas"],
        )

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        if obj is None:
            return None
        value = obj if self._to_dict is None else self._to_dict(obj, ctx)
        subject = subject_of(self._conf, ctx, self._name)
        written: bytes = translated(lambda: self._inner.write(value, subject))
        return written


class AvroDeserializer(Deserializer):
    """Reads dicts, or what `from_dict` makes of them."""

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        from_dict: Callable[[Any, SerializationContext | None], Any] | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        read_conf(conf)
        schema = _text(schema_str)
        reader = None if schema is None else schema.schema_str
        self._from_dict = from_dict
        self._inner = avro.AvroDeserializer(schema_registry_client.registry, schema=reader)

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        if data is None:
            return None
        value = translated(lambda: self._inner.read(data))
        return value if self._from_dict is None else self._from_dict(value, ctx)
