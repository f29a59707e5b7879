"""What the serializers for programs with an event loop have in common.

    serializer = await AsyncAvroSerializer(client, schema_str)
    data = await serializer(value, SerializationContext(topic, MessageField.VALUE))

The serializer without an event loop does the work, in a thread, because its first call for a subject asks the registry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Self

from ottla.compat.confluent_kafka.schema_registry._async.schema_registry_client import AsyncSchemaRegistryClient
from ottla.compat.confluent_kafka.serialization import SerializationContext


class Awaited:
    """A serializer or deserializer whose calls are awaited, and itself once after it was made."""

    kind: ClassVar[Callable[..., Any]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._inner = type(self).kind(
            *map(_plain, arguments), **{name: _plain(argument) for name, argument in named.items()}
        )

    def __await__(self) -> Generator[Any, None, Self]:
        yield from ()
        return self

    async def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> Any:
        return await asyncio.to_thread(self._inner, obj, ctx)


def _plain(argument: Any) -> Any:
    return argument.inner if isinstance(argument, AsyncSchemaRegistryClient) else argument
