"""kafka.consumer: KafkaConsumer."""

from ottla.compat.kafka.consumer.group import KafkaConsumer

__all__ = ["KafkaConsumer"]
