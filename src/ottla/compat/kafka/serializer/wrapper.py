"""kafka.serializer.wrapper: its names."""

from ottla.compat.kafka.serializer import Deserializer, DeserializeWrapper, Serializer, SerializeWrapper

__all__ = ["DeserializeWrapper", "Deserializer", "SerializeWrapper", "Serializer"]
