"""The names of kafka-python, carried out by Ottla's client.

1. Keyword arguments, times in milliseconds where kafka-python has them, poll() that gives lists by partition, futures
   with get(), add_callback() and add_errback().
2. Errors are our classes; the names of kafka.errors stand for them (`errors.TopicAlreadyExistsError`).
3. Settings that only concern kafka-python's own machinery (selector, kafka_client, api_version) are passed over; the
   log names them once.
"""

from ottla.compat.kafka.admin import KafkaAdminClient
from ottla.compat.kafka.consumer import ConsumerRebalanceListener, KafkaConsumer
from ottla.compat.kafka.producer import KafkaProducer
from ottla.compat.kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]
