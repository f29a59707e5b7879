"""SerializingProducer and DeserializingConsumer: serializers called with (object, context).

A serializer that a builder made (key.serializer.builder) belongs to the client and is closed with it.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
    ValueSerializationError,
)
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.producer import CLOSE_LIMIT_S, NO_PARTITION, Producer
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext

K = TypeVar("K")
V = TypeVar("V")


def take_serdes(conf: dict[str, Any], kind: str) -> tuple[tuple[Any, Any], list[Any], dict[str, Any]]:
    """Key and value serializer, those of them that builders made, and the rest of the configuration."""
    config = dict(conf)
    found, owned = [], []
    for part in ("key", "value"):
        name = f"{part}.{kind}"
        ready, builder = config.pop(name, None), config.pop(f"{name}.builder", None)
        if ready is not None and builder is not None:
            raise ValueError(f"{name} and {name}.builder cannot both be configured")
        if builder is not None:
            ready, config = builder.build(config, part == "key")
            owned.append(ready)
        found.append(ready)
    return (found[0], found[1]), owned, config


def serialized(part: MessageField, serializer: Any, data: Any, topic: str, headers: Any) -> Any:
    """What the serializer makes of a key or value."""
    if serializer is None:
        return data
    try:
        return serializer(data, SerializationContext(topic, part, headers))
    except Exception as error:
        raise (KeySerializationError if part is MessageField.KEY else ValueSerializationError)(error) from error


def deserialize(message: Message, key_deserializer: Any, value_deserializer: Any) -> Message:
    """Replace value and key by what the deserializers make of them."""
    if (failed := message.error()) is not None:
        raise ConsumeError(failed, kafka_message=message)
    context = SerializationContext(str(message.topic()), MessageField.VALUE, message.headers())
    if value_deserializer is not None:
        try:
            message.set_value(value_deserializer(message.value(), context))
        except Exception as error:
            raise ValueDeserializationError(error, message) from error
    context.field = MessageField.KEY
    if key_deserializer is not None:
        try:
            message.set_key(key_deserializer(message.key(), context))
        except Exception as error:
            raise KeyDeserializationError(error, message) from error
    return message


class SerializingProducer(Producer, Generic[K, V]):
    """A Producer with key.serializer and value.serializer in its configuration."""

    def __init__(self, conf: dict[str, Any]) -> None:
        (self._key_serializer, self._value_serializer), self._owned, config = take_serdes(conf, "serializer")
        super().__init__(config)
        for each in (self._key_serializer, self._value_serializer):
            if hasattr(each, "set_cluster_id_resolver"):
                each.set_cluster_id_resolver(self.cluster_id)

    def produce(  # type: ignore[override]  # the order of arguments is confluent-kafka's for this class
        self,
        topic: str,
        key: K | None = None,
        value: V | None = None,
        partition: int = NO_PARTITION,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        raw_key = serialized(MessageField.KEY, self._key_serializer, key, topic, headers)
        raw_value = serialized(MessageField.VALUE, self._value_serializer, value, topic, headers)
        super().produce(
            topic,
            raw_value,
            raw_key,
            partition=partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )

    def close(self, timeout: float = CLOSE_LIMIT_S) -> bool:
        ended = super().close(timeout)
        for each in self._owned:
            each.close()
        return ended


class DeserializingConsumer(Consumer, Generic[K, V]):
    """A Consumer with key.deserializer and value.deserializer in its configuration."""

    def __init__(self, conf: dict[str, Any]) -> None:
        (self._key_deserializer, self._value_deserializer), self._owned, config = take_serdes(conf, "deserializer")
        super().__init__(config)
        for each in (self._key_deserializer, self._value_deserializer):
            if hasattr(each, "set_cluster_id_resolver"):
                each.set_cluster_id_resolver(self.cluster_id)

    def poll(self, timeout: float | None = -1) -> Message | None:
        found = super().consume(1, timeout)
        return deserialize(found[0], self._key_deserializer, self._value_deserializer) if found else None

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Not for this class, as in confluent-kafka."""
        raise NotImplementedError("a DeserializingConsumer has poll() only")

    def close(self) -> None:
        super().close()
        for each in self._owned:
            each.close()
