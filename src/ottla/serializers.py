"""Serializers that register the schemas of what they write: Avro, JSON and Protobuf, from Python types.

    from ottla.serializers import AvroDeserializer, AvroSerializer

    @dataclass
    class Click:
        user: str
        page: str = "/"

    ottla.Producer(value_serializer=AvroSerializer(Click, "http://127.0.0.1:8081"))
    ottla.Consumer("clicks", value_deserializer=AvroDeserializer("http://127.0.0.1:8081", Click))

Types are dataclasses, pydantic models and msgspec structs; for Protobuf classes that protoc made. Any registry with
Confluent's REST interface will do, and records are in Confluent's wire format: other clients read them.
"""

from __future__ import annotations

from ottla.client.schema_registry.avro import AvroDeserializer, AvroSerializer
from ottla.client.schema_registry.avro_types import NoSchema, Precision, avro_schema
from ottla.client.schema_registry.json_format import JsonDeserializer, JsonSerializer
from ottla.client.schema_registry.json_types import json_schema
from ottla.client.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.client.schema_registry.registry import RegistryFailed, SchemaNotFound, SchemaRegistry
from ottla.client.schema_registry.serde import topic_subject
from ottla.schemas.model import Reference, SchemaText

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "NoSchema",
    "Precision",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Reference",
    "RegistryFailed",
    "SchemaNotFound",
    "SchemaRegistry",
    "SchemaText",
    "avro_schema",
    "json_schema",
    "topic_subject",
]
