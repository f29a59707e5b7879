"""kafka.serializer.json: its names."""

from ottla.compat.kafka.serializer import DefaultSerializer, JsonSerializer

__all__ = ["DefaultSerializer", "JsonSerializer"]
