"""The types of the names that __init__.py loads when they are first used."""

from ottla import aio as aio
from ottla import errors as errors
from ottla import testing as testing
from ottla.client.admin.admin import Admin as Admin
from ottla.client.admin.topics import NewTopic as NewTopic
from ottla.client.consumer.consumer import Consumer as Consumer
from ottla.client.consumer.record_choice import ConsumerRecord as ConsumerRecord
from ottla.client.producer.producer import Producer as Producer
from ottla.client.producer.values import ProducerRecord as ProducerRecord
from ottla.client.producer.values import RecordMetadata as RecordMetadata
from ottla.client.share.async_share_consumer import AsyncShareConsumer as AsyncShareConsumer
from ottla.client.share.in_flight import AcknowledgeType as AcknowledgeType
from ottla.client.share.records import ShareRecord as ShareRecord
from ottla.client.share.share_consumer import ShareConsumer as ShareConsumer
from ottla.client.topic_table import read_topic as read_topic
from ottla.properties import read_properties as read_properties
from ottla.values import OffsetAndMetadata as OffsetAndMetadata
from ottla.values import TopicPartition as TopicPartition

__version__: str
__all__ = [
    "AcknowledgeType",
    "Admin",
    "AsyncShareConsumer",
    "Consumer",
    "ConsumerRecord",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "ShareConsumer",
    "ShareRecord",
    "TopicPartition",
    "__version__",
    "read_properties",
    "read_topic",
]
