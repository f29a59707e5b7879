"""kafka.serializer.abstract: its names."""

from ottla.compat.kafka.serializer import Deserializer, Serializer

__all__ = ["Deserializer", "Serializer"]
