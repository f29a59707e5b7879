"""confluent_kafka.schema_registry: the registry's client, and what its serializers are made with.

Here are the names that programs with serializers use: the client, schemas, Avro, JSON and Protobuf serializers with
their settings for subjects and registration, for programs with and without an event loop. Not here: rules and
encryption, associations, ids in headers.
"""

from ottla.compat.confluent_kafka.schema_registry._async.schema_registry_client import AsyncSchemaRegistryClient
from ottla.compat.confluent_kafka.schema_registry.error import SchemaRegistryError
from ottla.compat.confluent_kafka.schema_registry.schema_registry_client import (
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from ottla.compat.confluent_kafka.schema_registry.serde import (
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)

__all__ = [
    "AsyncSchemaRegistryClient",
    "RegisteredSchema",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "record_subject_name_strategy",
    "topic_record_subject_name_strategy",
    "topic_subject_name_strategy",
]
