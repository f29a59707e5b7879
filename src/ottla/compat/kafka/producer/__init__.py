"""kafka.producer: KafkaProducer."""

from ottla.compat.kafka.producer.kafka import KafkaProducer

__all__ = ["KafkaProducer"]
