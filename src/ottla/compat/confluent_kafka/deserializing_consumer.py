"""confluent_kafka.deserializing_consumer: where programs import DeserializingConsumer from, too."""

from ottla.compat.confluent_kafka.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.serdes import DeserializingConsumer
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext

__all__ = [
    "ConsumeError",
    "DeserializingConsumer",
    "KeyDeserializationError",
    "Message",
    "MessageField",
    "SerializationContext",
    "ValueDeserializationError",
]
