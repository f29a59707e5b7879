"""confluent_kafka.schema_registry.protobuf."""

from __future__ import annotations

from typing import Any

from ottla.client.schema_registry import protobuf
from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.compat.confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from ottla.compat.confluent_kafka.schema_registry.serde import awaited_names, read_conf, subject_of, translated
from ottla.compat.confluent_kafka.serialization import Deserializer, SerializationContext, Serializer

__all__ = ["ProtobufDeserializer", "ProtobufSerializer"]
__getattr__ = awaited_names("protobuf")


class ProtobufSerializer(Serializer):
    """Writes messages of a class that protoc made."""

    def __init__(
        self, msg_type: Any, schema_registry_client: SchemaRegistryClient, conf: dict[str, Any] | None = None
    ) -> None:
        self._conf = read_conf(conf)
        self._name = msg_type.DESCRIPTOR.full_name
        self._inner = protobuf.ProtobufSerializer(
            msg_type,
            schema_registry_client.registry,
            register=self._conf["auto.register.schemas"],
            latest=self._conf["use.latest.version"],
            normalize=self._conf["normalize.schemas"],
        )

    def __call__(self, message: Any, ctx: SerializationContext | None = None) -> bytes | None:
        if message is None:
            return None
        subject = subject_of(self._conf, ctx, self._name)
        written: bytes = translated(lambda: self._inner.write(message, subject))
        return written


class ProtobufDeserializer(Deserializer):
    """Reads messages of a class; the registry is not needed for that."""

    def __init__(
        self,
        message_type: Any,
        conf: dict[str, Any] | None = None,
        schema_registry_client: SchemaRegistryClient | None = None,
    ) -> None:
        read_conf(conf)
        registry = (
            SchemaRegistry("http://unused") if schema_registry_client is None else schema_registry_client.registry
        )
        self._inner = protobuf.ProtobufDeserializer(registry, message_type)
        self._asks = schema_registry_client is not None

    def __call__(self, data: bytes | None, ctx: SerializationContext | None = None) -> Any:
        if data is None:
            return None
        return translated(lambda: self._inner.read(data) if self._asks else self._inner.decode(bytes(data), None))
