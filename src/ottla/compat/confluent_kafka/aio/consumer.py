"""AIOConsumer: the calls of Consumer, awaited. One call at a time, except those made inside a callback of a call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from ottla.compat.confluent_kafka.aio.calls import COMMON, on_loop, wrapped
from ottla.compat.confluent_kafka.consumer import Consumer
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.serdes import deserialize, take_serdes

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("ottla_compat_inside_callback", default=False)


class AIOConsumer:
    """See the module."""

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: concurrent.futures.Executor | None = None,
    ) -> None:
        if executor is None and max_workers < 1:
            raise ValueError("max_workers must be at least 1")
        self.executor = executor or concurrent.futures.ThreadPoolExecutor(max_workers, "ottla-compat-aio")
        self._owns_executor = executor is None
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._closed = False
        self._consumer = Consumer(wrapped(consumer_conf, self._loop, (*COMMON, "on_commit")))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, blocking: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if self._closed:
            raise RuntimeError("Consumer closed")
        if _inside.get():
            return await self._loop.run_in_executor(self.executor, lambda: blocking(*args, **kwargs))
        async with self._turn:
            return await self._loop.run_in_executor(self.executor, lambda: blocking(*args, **kwargs))

    def _rebalance(self, callback: Any) -> Any:
        if not callable(callback):
            return callback

        async def inside(*arguments: Any) -> Any:
            _inside.set(True)
            found = callback(*arguments)
            return await found if asyncio.iscoroutine(found) else found

        return on_loop(self._loop, inside, first=self)

    async def poll(self, *args: Any, **kwargs: Any) -> Message | None:
        return await self._call(self._consumer.poll, *args, **kwargs)

    async def consume(self, *args: Any, **kwargs: Any) -> list[Message]:
        return await self._call(self._consumer.consume, *args, **kwargs)

    async def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        arguments = (*args[:1], *(self._rebalance(each) for each in args[1:]))
        return await self._call(
            self._consumer.subscribe,
            *arguments,
            **{name: self._rebalance(value) if name.startswith("on_") else value for name, value in kwargs.items()},
        )

    async def unsubscribe(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.unsubscribe, *args, **kwargs)

    async def commit(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.commit, *args, **kwargs)

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        """Leave the group and end; calling it again does nothing."""
        if self._closed:
            return None
        await self._call(self._consumer.close, *args, **kwargs)
        self._closed = True
        if self._owns_executor:
            self.executor.shutdown(wait=False)
        return None

    async def seek(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.seek, *args, **kwargs)

    async def pause(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.pause, *args, **kwargs)

    async def resume(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.resume, *args, **kwargs)

    async def store_offsets(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.store_offsets, *args, **kwargs)

    async def committed(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.committed, *args, **kwargs)

    async def assign(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.assign, *args, **kwargs)

    async def unassign(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.unassign, *args, **kwargs)

    async def incremental_assign(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.incremental_assign, *args, **kwargs)

    async def incremental_unassign(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.incremental_unassign, *args, **kwargs)

    async def assignment(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.assignment, *args, **kwargs)

    async def position(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.position, *args, **kwargs)

    async def consumer_group_metadata(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.consumer_group_metadata, *args, **kwargs)

    async def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.set_sasl_credentials, *args, **kwargs)

    async def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.list_topics, *args, **kwargs)

    async def cluster_id(self, *args: Any, **kwargs: Any) -> str:
        return await self._call(self._consumer.cluster_id, *args, **kwargs)

    async def get_watermark_offsets(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.get_watermark_offsets, *args, **kwargs)

    async def offsets_for_times(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._consumer.offsets_for_times, *args, **kwargs)


class AsyncDeserializingConsumer(AIOConsumer, Generic[K, V]):
    """An AIOConsumer with key.deserializer and value.deserializer."""

    def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:
        (self._key_deserializer, self._value_deserializer), self._owned, config = take_serdes(conf, "deserializer")
        super().__init__(config, **kwargs)

    def __await__(self) -> Any:
        """`await AsyncDeserializingConsumer(conf)` is how confluent-kafka makes one."""
        yield from ()
        return self

    async def poll(self, timeout: float = -1) -> Message | None:
        found = await super().poll(timeout)
        return None if found is None else deserialize(found, self._key_deserializer, self._value_deserializer)

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        found = await super().consume(num_messages, timeout)
        return [deserialize(each, self._key_deserializer, self._value_deserializer) for each in found]

    async def close(self, *args: Any, **kwargs: Any) -> Any:
        found = await super().close(*args, **kwargs)
        for each in self._owned:
            each.close()
        return found
