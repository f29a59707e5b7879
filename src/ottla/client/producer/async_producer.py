"""The asyncio face of the producer: the same names, awaited where they wait. It runs on the caller's loop, no thread.

    async with AsyncProducer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"key")     # there is room for it
        print((await future).offset)                                     # the broker has it

1. `await send(...)` gives a future as soon as the record is in a batch, and `await future` its metadata; so a thousand
   records can be on their way. `send_and_wait` is both.
2. The promises of the sync face hold here too: bounded waits, failures told once, close() within its time.
3. A batch that became full gives the loop one turn, so that a loop of sends cannot keep the network waiting.
4. Belongs to the loop it was started on. Cancelling a call is safe: a record that was taken is still sent.

The calls themselves stand in async_calls.py; here is how a task begins, waits and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.arguments import seconds_of
from ottla.client.connections import within
from ottla.client.deadline import Deadline
from ottla.client.loop import ClientClosed, ForkedClient
from ottla.client.producer.async_calls import AsyncProducerCalls
from ottla.client.producer.batches.append_choice import ProducerBatch
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.batches.waiting import await_done
from ottla.client.producer.core import CLOSE_LIMIT_S, EXIT_LIMIT_S, NETWORK_CLOSE_MS, ProducerCore
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.values import BufferExhausted, ProducerRecord, RecordMetadata
from ottla.clock import Clock
from ottla.net.link import Transport

if TYPE_CHECKING:
    from ottla.client.producer.inspection import Inspection

T = TypeVar("T")


class AsyncProducer(AsyncProducerCalls):
    """Sends records to Kafka from asyncio code."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        transport: Transport | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: object,
    ) -> None:
        self.settings = ProducerSettings(config, **settings).named("producer")
        self._core = ProducerCore(self.settings, self, wake=self._wake, transport=transport, clock=clock, chance=random)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._starting = asyncio.Lock()
        self._process = os.getpid()

    async def start(self) -> Self:
        """Begin to live on the running loop; send() does it by itself. Does not wait for a broker."""
        if self._core.is_closed:
            raise ClientClosed(self.settings.client_id)
        self._check_loop()
        async with self._starting:
            if self._event_loop is None:
                self._event_loop = asyncio.get_running_loop()
                await self._core.start()
        return self

    _ready = start

    def _wake(self, call: Callable[[], None]) -> None:
        assert self._event_loop is not None, "a producer that was not started has nothing to send"
        self._event_loop.call_soon_threadsafe(call)

    async def _usable(self, topic: str) -> None:
        if self._process != os.getpid():
            self.is_hot = False
            raise ForkedClient(f"{self.settings.client_id} in process {os.getpid()}")
        self._core.check_may_send(topic)
        self._check_loop()
        if self._event_loop is None:
            await self.start()

    def _check_loop(self) -> None:
        if self._event_loop is not None and self._event_loop is not asyncio.get_running_loop():
            raise RuntimeError(f"{self.settings.client_id} belongs to another event loop; make one for this loop")

    def _has_begun(self) -> bool:
        self._check_loop()
        return self._event_loop is not None

    def _run(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return work  # the caller's loop is the client's

    def _give_turn(self) -> Coroutine[Any, Any, None]:
        return self._core.clock.sleep(0)

    async def send_and_wait(self, topic: str | ProducerRecord, value: Any = None, **record: Any) -> RecordMetadata:
        """Send a record and wait until the broker has it."""
        future = await self.send(topic, value, **record)
        return await future

    # --- waiting ---

    async def _wait_at(self, place: Place, deadline: Deadline) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place.notify = lambda: None if granted.done() else granted.set_result(None)
        self._core.loop.wake()
        self._core.accumulator.press()  # on one thread there is nothing to gain from a portion
        left_ms = deadline.left_ms()
        began_ms = self._core.clock.monotonic_ms()
        in_time = place.is_granted or await within(granted, self._core.clock, left_ms)
        now_ms = self._core.clock.monotonic_ms()
        self._core.metrics.took("bufferpool-wait", now_ms - began_ms, now_ms)
        if not in_time:
            raise BufferExhausted(self._core.exhausted(place, left_ms))
        if self._core.is_closed:
            self._core.check_may_send("")

    async def _wait_for_batches(self, deadline: Deadline | None) -> None:
        async with self._core.clock.timeout(None if deadline is None else deadline.left_ms()):
            for batch in self._core.accumulator.deliveries():
                await _Batch(batch)

    # --- the end ---

    async def _end(self, timeout: float) -> bool:
        core = self._core
        if core.is_closed:
            return False
        self._check_loop()
        core.is_closed = True
        self.is_hot = False
        if self._event_loop is not None:
            deadline = Deadline(core.clock, seconds_of(timeout) * 1000)
            await self._finish_unless_cancelled(deadline)
            left_ms = max(EXIT_LIMIT_S, deadline.left_s()) * 1000
            await core.close(timeout_ms=min(NETWORK_CLOSE_MS, left_ms))
        return True

    async def _finish_unless_cancelled(self, deadline: Deadline) -> None:
        try:
            with contextlib.suppress(TimeoutError):
                await self._wait_or_abort(deadline)
        except asyncio.CancelledError:
            self._core.is_closed = False  # it did not happen: what was taken is still sent, and it can be called again
            raise

    async def stop(self, timeout: float = CLOSE_LIMIT_S) -> None:
        """aiokafka's name for close()."""
        await self.close(timeout)

    async def __aenter__(self) -> Self:
        return await self.start()

    # --- looking ---

    def inspect(self) -> Inspection:
        """What is where, now: queues, memory, requests in flight."""
        if self._event_loop is None:
            raise RuntimeError(f"{self.settings.client_id} was not started yet; await start(), or send something")
        return super().inspect()


class _Batch:
    """Wait until every record of a batch is done, also when it is split meanwhile."""

    def __init__(self, batch: ProducerBatch) -> None:
        self._batch = batch

    def __await__(self) -> Any:
        delivery = self._batch.delivery
        if delivery.parts is None and not delivery.is_done:
            yield from await_done(delivery, 0)
        if delivery.parts is not None:
            for index in range(self._batch.record_count):
                if not delivery.is_done_at(index):
                    yield from await_done(delivery, index)
