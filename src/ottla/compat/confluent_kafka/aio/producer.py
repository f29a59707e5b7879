"""AIOProducer: `await produce()` queues a message and gives a future of the delivered Message.

The messages are batched by the client below, so batch_size and buffer_timeout are accepted and mean nothing; futures
complete by themselves, poll() only serves the other callbacks.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, Self, TypeVar

from ottla.compat.confluent_kafka.aio.calls import COMMON, wrapped
from ottla.compat.confluent_kafka.errors import KafkaException, error_of
from ottla.compat.confluent_kafka.messages import Message
from ottla.compat.confluent_kafka.producer import Producer
from ottla.compat.confluent_kafka.serdes import serialized, take_serdes
from ottla.compat.confluent_kafka.serialization import MessageField

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class _DirectProducer(Producer):
    """Reports are not kept for poll(): whoever waits for them is on another loop and hears at once."""

    def _failed(
        self, error: BaseException | None, message: Message, began: float, on_report: Callable[..., Any] | None
    ) -> None:
        message._latency = monotonic() - began
        message._error = None if error is None else error_of(error)
        if on_report is not None:
            on_report(message._error, message)


class AIOProducer:
    """See the module."""

    def __init__(
        self,
        producer_conf: dict[str, Any],
        max_workers: int = 4,
        executor: concurrent.futures.Executor | None = None,
        batch_size: int = 1000,
        buffer_timeout: float = 1.0,
    ) -> None:
        self.executor = executor or concurrent.futures.ThreadPoolExecutor(max_workers, "ottla-compat-aio")
        self._owns_executor = executor is None
        self._loop = asyncio.get_running_loop()
        self._producer = _DirectProducer(wrapped(producer_conf, self._loop, COMMON))
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __len__(self) -> int:
        return 0 if self._is_closed else len(self._producer)

    def __bool__(self) -> bool:
        return True

    async def close(self) -> None:
        """Deliver what is queued and end."""
        if not self._is_closed:
            self._is_closed = True
            await self._call(self._producer.close)
            if self._owns_executor:
                self.executor.shutdown(wait=False)

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, *args: Any, **kwargs: Any
    ) -> asyncio.Future[Any]:
        """Queue a message; the future has the delivered Message, or raises KafkaException."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def ended(error: Any, message: Message) -> None:
            self._loop.call_soon_threadsafe(_complete, future, error, message)

        kwargs["on_delivery"] = ended
        if self._producer._backlog.knows(topic):
            self._producer.produce(topic, value, key, *args, **kwargs)
        else:
            await self._call(self._producer.produce, topic, value, key, *args, **kwargs)
        return future

    async def poll(self, timeout: float = 0, *args: Any, **kwargs: Any) -> int:
        return await self._call(self._producer.poll, timeout, *args, **kwargs)

    async def flush(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.flush, *args, **kwargs)

    async def purge(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.purge, *args, **kwargs)

    async def list_topics(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.list_topics, *args, **kwargs)

    async def cluster_id(self, *args: Any, **kwargs: Any) -> str:
        return await self._call(self._producer.cluster_id, *args, **kwargs)

    async def init_transactions(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.init_transactions, *args, **kwargs)

    async def begin_transaction(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.begin_transaction, *args, **kwargs)

    async def send_offsets_to_transaction(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.send_offsets_to_transaction, *args, **kwargs)

    async def commit_transaction(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.commit_transaction, *args, **kwargs)

    async def abort_transaction(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.abort_transaction, *args, **kwargs)

    async def set_sasl_credentials(self, *args: Any, **kwargs: Any) -> Any:
        return await self._call(self._producer.set_sasl_credentials, *args, **kwargs)

    async def _call(self, blocking: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await self._loop.run_in_executor(self.executor, lambda: blocking(*args, **kwargs))


def _complete(future: asyncio.Future[Any], error: Any, message: Message) -> None:
    if not future.done():
        if error is None:
            future.set_result(message)
        else:
            future.set_exception(KafkaException(error))


class AsyncSerializingProducer(AIOProducer, Generic[K, V]):
    """An AIOProducer with key.serializer and value.serializer; serializers may be coroutines' functions."""

    def __init__(self, conf: dict[str, Any], **kwargs: Any) -> None:
        (self._key_serializer, self._value_serializer), self._owned, config = take_serdes(conf, "serializer")
        super().__init__(config, **kwargs)

    def __await__(self) -> Any:
        """`await AsyncSerializingProducer(conf)` is how confluent-kafka makes one."""
        yield from ()
        return self

    async def produce(  # type: ignore[override]  # the order of arguments is confluent-kafka's for this class
        self, topic: str, key: K | None = None, value: V | None = None, **kwargs: Any
    ) -> asyncio.Future[Any]:
        headers = kwargs.get("headers")
        raw_key = serialized(MessageField.KEY, self._key_serializer, key, topic, headers)
        raw_value = serialized(MessageField.VALUE, self._value_serializer, value, topic, headers)
        raw_key = await raw_key if asyncio.iscoroutine(raw_key) else raw_key
        raw_value = await raw_value if asyncio.iscoroutine(raw_value) else raw_value
        return await super().produce(topic, raw_value, raw_key, **kwargs)

    async def close(self) -> None:
        await super().close()
        for each in self._owned:
            each.close()
