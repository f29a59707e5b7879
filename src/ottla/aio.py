"""The client for asyncio: the names of `ottla` with methods to await.

    import ottla.aio

    async with ottla.aio.Producer(bootstrap_servers="localhost:9092") as producer:
        sent = await producer.send("clicks", b"value", key=b"user-7")

Every method has the name and the arguments it has in the sync class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla._lazy import load

if TYPE_CHECKING:
    from ottla.client.admin.async_admin import AsyncAdmin as Admin
    from ottla.client.consumer.async_consumer import AsyncConsumer as Consumer
    from ottla.client.producer.async_producer import AsyncProducer as Producer
    from ottla.client.share.async_share_consumer import AsyncShareConsumer as ShareConsumer

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer"]

# Loaded when first used: somebody who only produces does not pay for the consumer.
_HOMES: Final = {
    "Admin": ("ottla.client.admin.async_admin", "AsyncAdmin"),
    "Consumer": ("ottla.client.consumer.async_consumer", "AsyncConsumer"),
    "Producer": ("ottla.client.producer.async_producer", "AsyncProducer"),
    "ShareConsumer": ("ottla.client.share.async_share_consumer", "AsyncShareConsumer"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.aio' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return load(module, attribute)
