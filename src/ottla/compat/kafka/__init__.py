"""The names of kafka-python, carried out by Ottla's client.

1. Keyword arguments, times in milliseconds where kafka-python has them, poll() that gives lists by partition, futures
   with get(), add_callback() and add_errback(), plain dictionaries from KafkaAdminClient.
2. Errors are kafka-python's tree (kafka.errors); the error of ours is the __cause__.
3. A client takes every setting of kafka-python's DEFAULT_CONFIG; those that only concern its own machinery (selector,
   kafka_client, api_version) are passed over with a line in the log.
4. Not here: its protocol, network and metrics packages, assignors of a program's own, transactions in
   KafkaAdminClient. docs/migrating.md has the list, and a test compares it with the installed kafka-python.
"""

from ottla.compat.kafka.admin import KafkaAdminClient
from ottla.compat.kafka.admin.values import IsolationLevel, OffsetSpec
from ottla.compat.kafka.consumer import KafkaConsumer
from ottla.compat.kafka.consumer.subscription_state import AsyncConsumerRebalanceListener, ConsumerRebalanceListener
from ottla.compat.kafka.producer import KafkaProducer
from ottla.compat.kafka.serializer import DefaultSerializer, Deserializer, JsonSerializer, Serializer
from ottla.compat.kafka.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    TopicPartitionReplica,
)
from ottla.compat.kafka.version import __version__ as __version__

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "Serializer",
    "TopicPartition",
    "TopicPartitionReplica",
]
