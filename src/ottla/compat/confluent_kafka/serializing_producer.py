"""confluent_kafka.serializing_producer: where programs import SerializingProducer from, too."""

from ottla.compat.confluent_kafka.error import KeySerializationError, ValueSerializationError
from ottla.compat.confluent_kafka.serdes import SerializingProducer
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext

__all__ = [
    "KeySerializationError",
    "MessageField",
    "SerializationContext",
    "SerializingProducer",
    "ValueSerializationError",
]
