"""The sync face of the producer: send, flush, transactions, close. It waits; it decides nothing.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        future = producer.send("orders", b"value", key=b"key")
        producer.produce("orders", b"no future, flush() or close() raises if it fails")
        print(future.result().offset)

send() and produce() themselves stand in hot_path.py, and all that both faces do in sync_calls.py, which is made of
async_calls.py; here is how a thread waits, and the end. The package's docstring has the whole path, file by file.

1. send() waits at most max.block.ms, for metadata or for memory, and then raises. What it raises was not sent.
2. A failure is told once: by the future, by on_delivery, or else raised by flush(), close() or the end of `with`.
3. close() waits at most its timeout (30 s) and may be called twice. An open transaction is aborted, unless it was
   prepared for somebody else to end. After it, and in a forked child, every call raises at once.
4. Ctrl-C interrupts every wait; what was taken is still sent.
5. Any thread may call; callbacks run on the producer's own thread and must not wait for it.
6. A producer that is dropped or forgotten at exit says how many records were not sent.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Self, TypeVar

from ottla.client.arguments import seconds_of
from ottla.client.deadline import Deadline
from ottla.client.loop import BackgroundLoop
from ottla.client.producer.batches.append_choice import ProducerBatch
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.batches.waiting import wait_until_done
from ottla.client.producer.core import EXIT_LIMIT_S, NETWORK_CLOSE_MS, ProducerCore
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.sync_calls import ProducerCalls
from ottla.client.producer.values import BufferExhausted
from ottla.errors import OttlaError

T = TypeVar("T")
log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.02
"""How long a caller waits for a good portion of memory; then it takes the first bytes that are free."""

_alive: Final[weakref.WeakSet[Producer]] = weakref.WeakSet()


class Producer(ProducerCalls):
    """Sends records to Kafka from ordinary, blocking code."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: object) -> None:
        self.settings = ProducerSettings(config, **settings).named("producer")
        self._loop = BackgroundLoop(f"ottla {self.settings.client_id}")
        self._core = ProducerCore(self.settings, self, wake=self._loop.call_soon)
        self._closing = threading.Lock()
        self._loop.run(self._core.start())
        _alive.add(self)

    def __enter__(self) -> Self:
        return self

    def _ready(self) -> None:
        self._loop.check_fork()

    def _usable(self, topic: str) -> None:
        self._loop.check_fork()
        self._core.check_may_send(topic)

    def _has_begun(self) -> bool:
        self._loop.check_fork()
        return True

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def _give_turn(self) -> None:
        """The sender has a thread of its own."""

    # --- waiting ---

    def _wait_at(self, place: Place, deadline: Deadline) -> None:
        """Wait for memory. The line is served by the loop, so the loop itself must not stand in it."""
        clock = self._core.clock
        began_ms = clock.monotonic_ms()
        gate = threading.Event()
        place.notify = gate.set
        if place.is_granted:
            return
        self._core.loop.wake()
        is_loop = threading.get_ident() == self._core.thread_id
        granted = (not is_loop and gate.wait(min(PATIENCE_S, deadline.left_s()))) or place.is_granted
        if not granted:
            self._core.accumulator.press()
            granted = (not is_loop and gate.wait(deadline.left_s())) or place.is_granted
        now_ms = clock.monotonic_ms()
        self._core.metrics.took("bufferpool-wait", now_ms - began_ms, now_ms)
        if self._core.is_closed:
            self._usable("")
        if not granted:
            raise BufferExhausted(self._core.exhausted(place, now_ms - began_ms))

    def _wait_for_batches(self, deadline: Deadline | None) -> None:
        # The newest is mostly done last: one wait, where one for each batch would cost the sender time.
        for batch in reversed(self._core.accumulator.deliveries()):
            if not batch.delivery.is_done:
                _wait_for_batch(batch, deadline)

    # --- the end ---

    def _end(self, timeout: float) -> bool:
        with self._closing:
            if self._core.is_closed:
                return False
            self._loop.check_fork()
            deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
            self._core.is_closed = True
            self.is_hot = False
            _alive.discard(self)
            try:
                with contextlib.suppress(TimeoutError):
                    self._wait_or_abort(deadline)
                self._core.accumulator.is_closed = True
                left_ms = max(EXIT_LIMIT_S, deadline.left_s()) * 1000
                self._loop.run(self._core.close(timeout_ms=min(NETWORK_CLOSE_MS, left_ms)))
            finally:
                self._loop.close(max(EXIT_LIMIT_S, deadline.left_s()))
        return True


def _wait_for_batch(batch: ProducerBatch, deadline: Deadline | None) -> None:
    """Until every record of a batch is done, also when it is split meanwhile."""
    delivery = batch.delivery
    while not delivery.is_done:
        if delivery.parts is not None:
            for index in range(batch.record_count):
                if not delivery.is_done_at(index):
                    wait_until_done(delivery, index, _left(deadline))
            return
        wait_until_done(delivery, 0, _left(deadline))


def _left(deadline: Deadline | None) -> float | None:
    return None if deadline is None else deadline.left_s()


def _at_exit() -> None:
    for producer in list(_alive):
        waiting = len(producer)
        if not waiting:
            continue
        try:
            producer.close(EXIT_LIMIT_S)
        except OttlaError as error:
            log.error("the program ends and the producer %s was not closed: %s", producer.settings.client_id, error)
        else:
            log.warning(
                "the program ends and the producer %s was not closed; %d records were sent at the last moment."
                " Call close(), or use it in a with block",
                producer.settings.client_id,
                waiting,
            )


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alive.clear)  # they are the parent's to close
