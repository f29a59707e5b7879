"""confluent_kafka.schema_registry._async.protobuf."""

from ottla.compat.confluent_kafka.schema_registry._async.serde import Awaited
from ottla.compat.confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

__all__ = ["AsyncProtobufDeserializer", "AsyncProtobufSerializer"]


class AsyncProtobufSerializer(Awaited):
    """ProtobufSerializer, awaited."""

    kind = ProtobufSerializer


class AsyncProtobufDeserializer(Awaited):
    """ProtobufDeserializer, awaited."""

    kind = ProtobufDeserializer
