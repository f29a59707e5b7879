"""confluent_kafka.schema_registry.AsyncSchemaRegistryClient: every question is asked in a thread, and awaited.

Its methods are those of SchemaRegistryClient, one by one; what is awaited is what they return.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Self

from ottla.compat.confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient

__all__ = ["AsyncSchemaRegistryClient"]


class AsyncSchemaRegistryClient:
    """Settings as of SchemaRegistryClient, which is in `inner`."""

    def __init__(self, conf: dict[str, Any]) -> None:
        self.inner = SchemaRegistryClient(conf)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Nothing stays open between two questions."""


def _awaited(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    async def asked(self: AsyncSchemaRegistryClient, *arguments: Any, **named: Any) -> Any:
        return await asyncio.to_thread(call, self.inner, *arguments, **named)

    return asked


for _name, _call in vars(SchemaRegistryClient).items():
    if callable(_call) and not _name.startswith("_") and _name not in ("ask", "close"):
        setattr(AsyncSchemaRegistryClient, _name, _awaited(_call))
