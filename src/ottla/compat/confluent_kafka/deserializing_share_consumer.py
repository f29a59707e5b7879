"""confluent_kafka.deserializing_share_consumer: a ShareConsumer with deserializers in its configuration.

A message that cannot be deserialized stays in the list with its bytes, and its error() says which part it was; so it
can be acknowledged like the others.
"""

from __future__ import annotations

from typing import Any

from ottla.compat.confluent_kafka.errors import KafkaError
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.model import Messages
from ottla.compat.confluent_kafka.serialization import MessageField, SerializationContext
from ottla.compat.confluent_kafka.share_consumer import ShareConsumer

__all__ = ["DeserializingShareConsumer", "KafkaError", "Message", "MessageField", "Messages", "SerializationContext"]


class DeserializingShareConsumer(ShareConsumer):
    """See the module."""

    def __init__(self, conf: dict[str, Any]) -> None:
        config = dict(conf)
        self._key_deserializer = config.pop("key.deserializer", None)
        self._value_deserializer = config.pop("value.deserializer", None)
        super().__init__(config)

    def poll(self, timeout: float = -1) -> Messages:
        messages = super().poll(timeout)
        for message in messages:
            if message.error() is None:
                self._deserialize(message)
        return messages

    def _deserialize(self, message: Message) -> None:
        """Both parts, or none of them and an error."""
        context = SerializationContext(str(message.topic()), MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        try:
            if self._key_deserializer is not None:
                key = self._key_deserializer(key, context)
        except Exception as error:
            message.set_error(KafkaError(KafkaError._KEY_DESERIALIZATION, str(error)))
            return
        context.field = MessageField.VALUE
        try:
            if self._value_deserializer is not None:
                value = self._value_deserializer(value, context)
        except Exception as error:
            message.set_error(KafkaError(KafkaError._VALUE_DESERIALIZATION, str(error)))
            return
        message.set_key(key)
        message.set_value(value)
