"""kafka.serializer.default: its names."""

from ottla.compat.kafka.serializer import DefaultSerializer, Deserializer, Serializer

__all__ = ["DefaultSerializer", "Deserializer", "Serializer"]
