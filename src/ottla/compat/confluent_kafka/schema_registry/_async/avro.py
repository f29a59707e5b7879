"""confluent_kafka.schema_registry._async.avro."""

from ottla.compat.confluent_kafka.schema_registry._async.serde import Awaited
from ottla.compat.confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer

__all__ = ["AsyncAvroDeserializer", "AsyncAvroSerializer"]


class AsyncAvroSerializer(Awaited):
    """AvroSerializer, awaited."""

    kind = AvroSerializer


class AsyncAvroDeserializer(Awaited):
    """AvroDeserializer, awaited."""

    kind = AvroDeserializer
