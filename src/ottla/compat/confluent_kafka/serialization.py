"""confluent_kafka.serialization: text, integers, doubles, and what serializers of one's own derive from."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import Any

from ottla.compat.confluent_kafka.errors import KafkaException

__all__ = [
    "Deserializer",
    "DeserializerBuilder",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "SerializerBuilder",
    "StringDeserializer",
    "StringSerializer",
]


class MessageField(enum.StrEnum):
    """Which part of a message."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


class SerializationContext:
    """Where something is written to or read from."""

    def __init__(self, topic: str, field: str, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class SerializationError(KafkaException):
    """Something could not be written or read."""


class Serializer:
    """Called with the object and its context; returns bytes."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        raise NotImplementedError

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Who needs the cluster's id keeps the resolver; the others do nothing."""

    def close(self) -> None:
        """Nothing is open, unless a subclass has something."""


class Deserializer:
    """Called with bytes and their context; returns the object."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        raise NotImplementedError

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Who needs the cluster's id keeps the resolver; the others do nothing."""

    def close(self) -> None:
        """Nothing is open, unless a subclass has something."""


class SerializerBuilder:
    """Makes a serializer for a client that is being made."""

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Serializer, dict[str, Any]]:
        """The serializer, and the configuration without what was for it."""
        raise NotImplementedError


class DeserializerBuilder:
    """Makes a deserializer for a client that is being made."""

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Deserializer, dict[str, Any]]:
        """The deserializer, and the configuration without what was for it."""
        raise NotImplementedError


class StringSerializer(Serializer):
    """Text."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        if obj is None:
            return None
        try:
            return str(obj).encode(self.codec)
        except UnicodeEncodeError as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Text."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        if value is None:
            return None
        try:
            return value.decode(self.codec)
        except UnicodeDecodeError as error:
            raise SerializationError(str(error)) from error


class _Packed:
    kind = ""

    def pack(self, obj: Any) -> bytes | None:
        if obj is None:
            return None
        try:
            return struct.pack(self.kind, obj)
        except struct.error as error:
            raise SerializationError(str(error)) from error

    def unpack(self, value: bytes | None) -> Any:
        if value is None:
            return None
        try:
            return struct.unpack(self.kind, value)[0]
        except struct.error as error:
            raise SerializationError(str(error)) from error


class IntegerSerializer(_Packed, Serializer):
    """A 32-bit integer."""

    kind = ">i"

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        return self.pack(obj)


class IntegerDeserializer(_Packed, Deserializer):
    """A 32-bit integer."""

    kind = ">i"

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        return self.unpack(value)


class DoubleSerializer(_Packed, Serializer):
    """A double."""

    kind = ">d"

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        return self.pack(obj)


class DoubleDeserializer(_Packed, Deserializer):
    """A double."""

    kind = ">d"

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        return self.unpack(value)
