"""The names of confluent-kafka, carried out by Ottla's client.

1. Callbacks are called from poll() and flush(), in the caller's thread, as a program for confluent-kafka expects.
2. Failures are values (`message.error()`) where they are values there, and KafkaException where they are raised there.
3. Every setting of librdkafka is read as librdkafka reads it (settings.py); produce() never waits.
4. Not here: avro (schema_registry has what replaced it), kafkatest, set_sasl_credentials(); rules of schema_registry.
   docs/migrating.md has the list, and a test compares it with the installed confluent-kafka.
"""

import importlib
from typing import Any, Final

from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from ottla.compat.confluent_kafka.messages import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)
from ottla.compat.confluent_kafka.model import (
    AcknowledgeType,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Messages,
    Node,
    TopicCollection,
    TopicPartitionInfo,
    Uuid,
)
from ottla.compat.confluent_kafka.partitioners import consistent, fnv1a, murmur2
from ottla.compat.confluent_kafka.producer import Producer
from ottla.compat.confluent_kafka.serdes import DeserializingConsumer, SerializingProducer
from ottla.compat.confluent_kafka.serving import ThrottleEvent
from ottla.compat.confluent_kafka.versions import libversion, version

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgeType",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "DeserializingConsumer",
    "DeserializingShareConsumer",
    "ElectionType",
    "IllegalStateException",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "Messages",
    "Node",
    "Producer",
    "SerializingProducer",
    "ShareConsumer",
    "ThrottleEvent",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "admin",
    "aio",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]

__version__ = version()

_MODULES: Final = ("admin", "aio", "error", "serialization", "cimpl")
# Few programs need them, so that they are loaded when they are first named.
_CLASSES: Final = {
    "DeserializingShareConsumer": "deserializing_share_consumer",
    "ShareConsumer": "share_consumer",
}


def __getattr__(name: str) -> Any:
    """Modules and a few classes of the package, loaded when they are first named."""
    if name in _CLASSES:
        return getattr(importlib.import_module(f"ottla.compat.confluent_kafka.{_CLASSES[name]}"), name)
    if name not in _MODULES:
        raise AttributeError(f"module 'ottla.compat.confluent_kafka' has no attribute {name!r}")
    return importlib.import_module(f"ottla.compat.confluent_kafka.{name}")
