"""The names of confluent-kafka, carried out by Ottla's client.

1. Callbacks are called from poll() and flush(), in the caller's thread, as a program for confluent-kafka expects.
2. Failures are values (`message.error()`) where they are values there, and KafkaException where they are raised there.
3. A full queue raises BufferError at once, unless the program set max.block.ms.
4. Not here: schema registry, share consumers, and statistics (`stats_cb` is never called, which the log says).
"""

from ottla import __version__
from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException
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
from ottla.compat.confluent_kafka.producer import Producer
from ottla.compat.confluent_kafka.serdes import DeserializingConsumer, SerializingProducer

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Consumer",
    "DeserializingConsumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "SerializingProducer",
    "TopicPartition",
    "libversion",
    "version",
]


def version() -> str:
    """The version of the library."""
    return __version__


def libversion() -> tuple[str, int]:
    """Text and number of the library underneath: it is Ottla, there is no librdkafka."""
    major, minor, patch = (int(part) for part in __version__.split(".")[:3])
    return f"ottla {__version__}", major << 24 | minor << 16 | patch << 8 | 0xFF
