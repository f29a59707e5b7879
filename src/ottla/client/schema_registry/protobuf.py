"""Protobuf with a registry: messages of classes that protoc made.

    ProtobufSerializer(Click, "http://127.0.0.1:8081")
    ProtobufDeserializer("http://127.0.0.1:8081", Click)

1. The file of a class is registered with all that it imports, each under its own name as subject, as Confluent's
   serializers do; google's own files need no subject.
2. Without a class a deserializer makes one of the schema that a record names.
"""

from __future__ import annotations

import base64
from typing import Any

from ottla.client.schema_registry.registry import SchemaRegistry
from ottla.client.schema_registry.serde import RegistryDeserializer, RegistrySerializer
from ottla.client.serializers import SerializationFailed
from ottla.schemas.framing import read_indexes, write_indexes
from ottla.schemas.model import PROTOBUF, Reference, SchemaText
from ottla.schemas.protobuf.messages import NoSuchMessage, class_of, indexes_of, linked_file, message_at

KNOWN = ("google/protobuf/", "google/type/", "confluent/")


class ProtobufSerializer(RegistrySerializer):
    """`kind` is a class of messages."""

    def __init__(self, kind: Any, registry: SchemaRegistry | str, **more: Any) -> None:
        super().__init__(registry, **more)
        self._kind = kind
        self._indexes = write_indexes(indexes_of(kind.DESCRIPTOR))

    def schema(self) -> SchemaText:
        return self._schema_of_file(self._kind.DESCRIPTOR.file)

    def _schema_of_file(self, file: Any) -> SchemaText:
        references = []
        for each in file.dependencies:
            if not each.name.startswith(KNOWN):
                inner = self._schema_of_file(each)
                self.registry.register(each.name, inner, normalize=self._normalize)
                references.append(Reference(each.name, each.name, self.registry.version_of(each.name, inner)))
        return SchemaText(PROTOBUF, base64.b64encode(file.serialized_pb).decode(), tuple(references))

    def prepare(self, schema: SchemaText) -> Any:
        return self._indexes

    def encode(self, value: Any, prepared: Any) -> bytes:
        if not isinstance(value, self._kind):
            raise SerializationFailed(f"{type(value).__name__} is no {self._kind.DESCRIPTOR.full_name}")
        content: bytes = value.SerializeToString()
        return bytes(prepared) + content


class ProtobufDeserializer(RegistryDeserializer):
    """`kind` is a class of messages; without one it is made of the record's schema."""

    def __init__(self, registry: SchemaRegistry | str, kind: Any = None) -> None:
        super().__init__(registry)
        self._kind = kind

    def prepare(self, schema_id: int) -> Any:
        schema = self.registry.schema(schema_id)
        if schema.kind != PROTOBUF:
            raise SerializationFailed(f"schema {schema_id} is {schema.kind}, not Protobuf")
        return None if self._kind is not None else linked_file(schema.text, self.registry.imports(schema))

    def decode(self, data: bytes, prepared: Any) -> Any:
        from google.protobuf.message import DecodeError

        indexes, position = read_indexes(data)
        try:
            kind = self._kind or class_of(message_at(prepared, indexes))
        except NoSuchMessage as error:
            raise SerializationFailed(str(error)) from None
        try:
            return kind.FromString(data[position:])
        except DecodeError as error:
            raise SerializationFailed(f"the record is no {kind.DESCRIPTOR.full_name}: {error}") from None
