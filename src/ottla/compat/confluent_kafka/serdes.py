"""SerializingProducer and DeserializingConsumer: serializers called with (object, context)."""

from __future__ import annotations

from typing import Any

from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.errors import KafkaError, KafkaException
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.producer import NO_PARTITION, Producer
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext


class _SerdeError(KafkaException):
    """A key or value could not be written or read; `exception` is why."""

    code = KafkaError._FAIL

    def __init__(self, exception: BaseException, message: Message | None = None) -> None:
        super().__init__(KafkaError(self.code, str(exception)))
        self.exception = exception
        self.kafka_message = message


class KeySerializationError(_SerdeError):
    """The key could not be written."""

    code = KafkaError._KEY_SERIALIZATION


class ValueSerializationError(_SerdeError):
    """The value could not be written."""

    code = KafkaError._VALUE_SERIALIZATION


class KeyDeserializationError(_SerdeError):
    """The key could not be read."""

    code = KafkaError._KEY_DESERIALIZATION


class ValueDeserializationError(_SerdeError):
    """The value could not be read."""

    code = KafkaError._VALUE_DESERIALIZATION


class SerializingProducer(Producer):
    """A Producer with key.serializer and value.serializer in its configuration."""

    def __init__(self, conf: dict[str, Any]) -> None:
        config = dict(conf)
        self._key_serializer = config.pop("key.serializer", None)
        self._value_serializer = config.pop("value.serializer", None)
        super().__init__(config)

    def produce(  # type: ignore[override]  # the order of arguments is confluent-kafka's for this class
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = NO_PARTITION,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        context = SerializationContext(topic, MessageField.KEY, headers)
        if self._key_serializer is not None:
            try:
                key = self._key_serializer(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if self._value_serializer is not None:
            try:
                value = self._value_serializer(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic, value, key, partition=partition, on_delivery=on_delivery, timestamp=timestamp, headers=headers
        )


class DeserializingConsumer(Consumer):
    """A Consumer with key.deserializer and value.deserializer in its configuration."""

    def __init__(self, conf: dict[str, Any]) -> None:
        config = dict(conf)
        self._key_deserializer = config.pop("key.deserializer", None)
        self._value_deserializer = config.pop("value.deserializer", None)
        super().__init__(config)

    def poll(self, timeout: float | None = -1) -> Message | None:
        message = super().poll(timeout)
        if message is None:
            return None
        if message.error() is not None:
            raise KafkaException(message.error())
        context = SerializationContext(str(message.topic()), MessageField.VALUE, message.headers())
        if self._value_deserializer is not None:
            try:
                message.set_value(self._value_deserializer(message.value(), context))
            except Exception as error:
                raise ValueDeserializationError(error, message) from error
        context.field = MessageField.KEY
        if self._key_deserializer is not None:
            try:
                message.set_key(self._key_deserializer(message.key(), context))
            except Exception as error:
                raise KeyDeserializationError(error, message) from error
        return message

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message]:
        """Not for this class, as in confluent-kafka; poll() calls what is underneath."""
        if num_messages != 1:
            raise NotImplementedError("a DeserializingConsumer has poll() only")
        return super().consume(1, timeout)
