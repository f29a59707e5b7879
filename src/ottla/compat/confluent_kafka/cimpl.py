"""confluent_kafka.cimpl: the names that programs import from the C module of the original."""

from ottla.compat.confluent_kafka import cimpl_numbers
from ottla.compat.confluent_kafka.admin_values import NewPartitions, NewTopic
from ottla.compat.confluent_kafka.cimpl_numbers import *  # noqa: F403  # they are the interface
from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.errors import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from ottla.compat.confluent_kafka.messages import Message, TopicPartition
from ottla.compat.confluent_kafka.model import Uuid
from ottla.compat.confluent_kafka.partitioners import consistent, fnv1a, murmur2
from ottla.compat.confluent_kafka.producer import Producer
from ottla.compat.confluent_kafka.share_consumer import ShareConsumer
from ottla.compat.confluent_kafka.versions import libversion, version

__all__ = [
    "ConcurrentModificationException",
    "Consumer",
    "IllegalStateException",
    "KafkaError",
    "KafkaException",
    "Message",
    "NewPartitions",
    "NewTopic",
    "Producer",
    "ShareConsumer",
    "TopicPartition",
    "Uuid",
    "consistent",
    "fnv1a",
    "libversion",
    "murmur2",
    "version",
]
__all__ += cimpl_numbers.__all__
