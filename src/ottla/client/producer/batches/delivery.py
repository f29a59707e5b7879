"""What became of a batch, and the futures of its records: the readable twin of Delivery and SendFuture.

1. A delivery is told once, success or failure; what is told later is refused with False.
2. A future is a place in a delivery: batch and index. What it gives (offset = base offset + index) is made when asked.
3. A batch that was too large is split: the delivery then points on to the parts, and futures follow it there.
4. Whoever waits is called once, in the order of the records, on the thread that tells: the client's loop.
5. `told` are the indexes of failed records whose owners have heard of it; flush() raises the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

from ottla.client.producer.batches.waiting import Waiter, again, await_done, call_waiters, wait_until_done
from ottla.client.producer.values import RecordMetadata
from ottla.errors import OttlaError


class Delivery:
    """What became of the records of one batch; the futures of its records ask here."""

    __slots__ = (
        "_lock",
        "_waiters",
        "append_time_ms",
        "base_offset",
        "error",
        "is_done",
        "partition",
        "parts",
        "record_count",
        "record_errors",
        "told",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.base_offset = -1
        self.append_time_ms = -1
        self.error: OttlaError | None = None
        self.record_errors: dict[int, OttlaError] | None = None
        self.is_done = False
        self.parts: Sequence[tuple[int, Delivery]] | None = None
        self.told: set[int] | None = None
        self.record_count = 0
        self._waiters: list[Waiter] = []
        self._lock = threading.Lock()

    def succeed(self, base_offset: int, append_time_ms: int = -1) -> bool:
        """The broker has them; False when something else was told before."""
        with self._lock:
            if self.is_done or self.parts is not None:
                return False
            self.base_offset, self.append_time_ms, self.is_done = base_offset, append_time_ms, True
        self._finish()
        return True

    def fail(self, error: OttlaError, record_errors: dict[int, OttlaError] | None = None) -> bool:
        """They are not delivered; single records may have reasons of their own."""
        with self._lock:
            if self.is_done or self.parts is not None:
                return False
            self.error, self.record_errors, self.told, self.is_done = error, record_errors, set(), True
        self._finish()
        return True

    def _finish(self) -> None:
        waiters, self._waiters = self._waiters, []
        call_waiters(waiters, self)

    def split(self, parts: Sequence[tuple[int, Delivery]]) -> bool:
        """The records travel on in other batches: (first index here, delivery there), in order."""
        with self._lock:
            if self.is_done or self.parts is not None:
                return False
            self.parts = parts
        waiters, self._waiters = self._waiters, []
        for index, call in waiters:
            if not self.add_waiter(index, call):
                call_waiters([(index, call)], self)
        return True

    def add_waiter(self, index: int, call: Callable[[], object]) -> bool:
        """Call with nothing when the record at `index` is done; False when it is already."""
        delivery, place = self.located(index)
        if delivery is not self:
            return delivery.add_waiter(place, call)
        with self._lock:
            if self.is_done:
                return False
            if self.parts is None:
                self._waiters.append((index, call))
                return True
        return self.add_waiter(index, call)

    def located(self, index: int) -> tuple[Delivery, int]:
        """Where the record at `index` is now, after splits."""
        delivery = self
        while delivery.parts is not None:
            first, delivery = next(part for part in reversed(delivery.parts) if index >= part[0])
            index -= first
        return delivery, index

    def is_done_at(self, index: int) -> bool:
        return self.is_done if self.parts is None else self.located(index)[0].is_done

    def error_at(self, index: int) -> OttlaError | None:
        """Why the record at `index` was not delivered; None when it was, or is not done."""
        delivery, place = self.located(index)
        if delivery.record_errors is not None:
            return delivery.record_errors.get(place, delivery.error)
        return delivery.error

    def tell(self, index: int) -> None:
        """Somebody has heard of the failure of this record."""
        delivery, place = self.located(index)
        if delivery.told is not None:
            delivery.told.add(place)


class SendFuture:
    """The record's place in a delivery; what it gives is made when it is asked for."""

    __slots__ = ("_delivery", "_index", "_key_bytes", "_time_ms", "_value_bytes")

    def __init__(self, delivery: Delivery, index: int, time_ms: int, key_bytes: int, value_bytes: int) -> None:
        self._delivery = delivery
        self._index = index
        self._time_ms = time_ms
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes

    @property
    def topic(self) -> str:
        return self._delivery.topic

    @property
    def partition(self) -> int:
        return self._delivery.partition

    def as_run(self) -> tuple[Delivery, int, int]:
        """The same place as send_many() notes it: delivery, first index, count."""
        return self._delivery, self._index, 1

    def done(self) -> bool:
        return self._delivery.is_done_at(self._index)

    def cancelled(self) -> bool:
        return False

    def cancel(self) -> bool:
        """A record cannot be called back: always False."""
        return False

    def exception(self, timeout: float | None = None) -> OttlaError | None:
        """Why it was not delivered, or None; waits at most `timeout` seconds."""
        if not self.done():
            wait_until_done(self._delivery, self._index, timeout)
        error = self._delivery.error_at(self._index)
        if error is not None:
            self._delivery.tell(self._index)
        return error

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The record's metadata; raises why it was not delivered, or TimeoutError after `timeout` seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise again(error)
        return self.metadata()

    def get(self, timeout: float | None = None) -> RecordMetadata:
        return self.result(timeout)

    def metadata(self) -> RecordMetadata:
        """What is known now; the offset is -1 before the delivery and after a failure."""
        delivery, index = self._delivery.located(self._index)
        offset = delivery.base_offset + index if delivery.base_offset >= 0 else -1
        time_ms = delivery.append_time_ms if delivery.append_time_ms >= 0 else self._time_ms
        return RecordMetadata(delivery.topic, delivery.partition, offset, time_ms, self._key_bytes, self._value_bytes)

    def add_done_callback(self, call: Callable[[SendFuture], object]) -> None:
        """Call with this future when it is done: on the client's loop, or at once when it is done already."""
        if not self._delivery.add_waiter(self._index, lambda: call(self)):
            call(self)

    def add_delivery_callback(self, call: Callable[[RecordMetadata, OttlaError | None], object]) -> None:
        """The same with (metadata, error), as on_delivery gets them."""
        self._notice(call, is_silent=False)

    def add_silent_callback(self, call: Callable[[RecordMetadata, OttlaError | None], object]) -> None:
        """The same for somebody whose hearing of a failure does not count as the caller's."""
        self._notice(call, is_silent=True)

    def _notice(self, call: Callable[[RecordMetadata, OttlaError | None], object], *, is_silent: bool) -> None:
        def notice() -> None:
            error = self._delivery.error_at(self._index)
            if error is not None and not is_silent:
                self._delivery.tell(self._index)
            call(self.metadata(), error)

        if not self._delivery.add_waiter(self._index, notice):
            notice()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from await_done(self._delivery, self._index)
        return self.result(0)

    def __repr__(self) -> str:
        return f"<SendFuture {self.topic}-{self.partition} {'done' if self.done() else 'waiting'}>"
