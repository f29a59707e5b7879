"""confluent_kafka.aio: producer and consumer whose calls are awaited."""

from ottla.compat.confluent_kafka.aio.consumer import AIOConsumer, AsyncDeserializingConsumer
from ottla.compat.confluent_kafka.aio.producer import AIOProducer, AsyncSerializingProducer

__all__ = ["AIOConsumer", "AIOProducer", "AsyncDeserializingConsumer", "AsyncSerializingProducer"]
