"""confluent_kafka.schema_registry.json_schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ottla.client.schema_registry import json_format
from ottla.compat.confluent_kafka.schema_registry.schema_registry_client import Schema, SchemaRegistryClient
from ottla.compat.confluent_kafka.schema_registry.serde import awaited_names, read_conf, subject_of, translated
from ottla.compat.confluent_kafka.serialization import Deserializer, SerializationContext, Serializer
from ottla.schemas.framing import FRAME_BYTES

__all__ = ["JSONDeserializer", "JSONSerializer"]
__getattr__ = awaited_names("json_schema")


class JSONSerializer(Serializer):
    """Writes dicts, or what `to_dict` makes dicts of, when they fit their schema."""

    def __init__(
        self,
        schema_str: str | Schema,
        schema_registry_client: SchemaRegistryClient,
        to_dict: Callable[[Any, SerializationContext | None], Any] | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        schema = Schema(schema_str, "JSON") if isinstance(schema_str, str) else schema_str
        self._conf = read_conf(conf)
        self._to_dict = to_dict
        self._name = json.loads(schema.schema_str or "{}").get("title")
        self._inner = json_format.JsonSerializer(
            schema.text(),
            schema_registry_client.registry,
            validate=self._conf["validate"],
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


class JSONDeserializer(Deserializer):
    """Reads dicts, or what `from_dict` makes of them; without a registry the id is passed over."""

    def __init__(
        self,
        schema_str: str | Schema | None,
        from_dict: Callable[[Any, SerializationContext | None], Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
        conf: dict[str, Any] | None = None,
    ) -> None:
        read_conf(conf)
        self._from_dict = from_dict
        registry = None if schema_registry_client is None else schema_registry_client.registry
        self._inner = None if registry is None else json_format.JsonDeserializer(registry)

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        if data is None:
            return None
        inner = self._inner
        value = translated(lambda: json.loads(data[FRAME_BYTES:]) if inner is None else inner.read(data))
        return value if self._from_dict is None else self._from_dict(value, ctx)
