"""confluent_kafka.schema_registry._async.json_schema."""

from ottla.compat.confluent_kafka.schema_registry._async.serde import Awaited
from ottla.compat.confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer

__all__ = ["AsyncJSONDeserializer", "AsyncJSONSerializer"]


class AsyncJSONSerializer(Awaited):
    """JSONSerializer, awaited."""

    kind = JSONSerializer


class AsyncJSONDeserializer(Awaited):
    """JSONDeserializer, awaited."""

    kind = JSONDeserializer
