"""kafka.serializer: objects with serialize(topic, headers, data) and deserialize(topic, headers, data)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = [
    "DefaultSerializer",
    "DeserializeWrapper",
    "Deserializer",
    "JsonSerializer",
    "SerializeWrapper",
    "Serializer",
]


class Serializer(ABC):
    """Makes bytes of keys or values."""

    @abstractmethod
    def serialize(self, topic: str, headers: Any, data: Any) -> Any: ...

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Nothing is open, unless a subclass has something."""


class Deserializer(ABC):
    """Makes keys or values of bytes."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Any, data: Any) -> Any: ...

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Nothing is open, unless a subclass has something."""


class DefaultSerializer(Serializer, Deserializer):
    """Text; bytes stay what they are."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return data if data is None or isinstance(data, bytes | bytearray | memoryview) else data.encode(self.encoding)

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        return None if data is None else data.decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """JSON text."""

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return None if data is None else super().serialize(topic, headers, json.dumps(data))

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        return None if data is None else json.loads(super().deserialize(topic, headers, data))


class SerializeWrapper(Serializer):
    """A function of the data alone."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        self.fn = fn

    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return data if self.fn is None else self.fn(data)


class DeserializeWrapper(Deserializer):
    """A function of the data alone."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        self.fn = fn

    def deserialize(self, topic: str, headers: Any, data: Any) -> Any:
        return data if self.fn is None else self.fn(data)


def serializer_of(value: Any, name: str) -> Serializer | None:
    """What a program wrote for key_serializer or value_serializer."""
    if value is None or hasattr(value, "serialize"):
        return value  # type: ignore[no-any-return]
    if callable(value):
        return SerializeWrapper(value)
    raise TypeError(f"{name} must be a Serializer or a function, not {type(value).__name__}")


def deserializer_of(value: Any, name: str) -> Deserializer | None:
    """What a program wrote for key_deserializer or value_deserializer."""
    if value is None or hasattr(value, "deserialize"):
        return value  # type: ignore[no-any-return]
    if callable(value):
        return DeserializeWrapper(value)
    raise TypeError(f"{name} must be a Deserializer or a function, not {type(value).__name__}")
