"""What producer faces inherit: send() and produce() that go straight into a batch while nothing needs a decision.

`is_hot` says whether they may: the producer is open, its transaction (if it makes any) too, and nothing of the user's
has to be called for a record. Everything else is `_send_slowly`, which the faces have. The readable twin.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, TypeVar

from ottla.client.producer.batches.delivery import SendFuture
from ottla.client.producer.batches.topic_state import RECORD_OVERHEAD_BYTES, TopicState
from ottla.client.producer.values import HeaderItems, ProducerRecord, headers_of
from ottla.records.builder import encode_record

T = TypeVar("T")


class HotPath:
    """The quick way of a sync face."""

    topic_states: dict[str, TopicState]
    is_hot: bool
    quick_room: Callable[[TopicState, bytes | None, int | None, int], bool] | None

    def __new__(cls, *arguments: object, **named: object) -> Any:
        made = super().__new__(cls)
        made.topic_states, made.is_hot, made.quick_room = {}, False, None
        return made

    def _send_slowly(self, *record: Any) -> Any:
        raise NotImplementedError

    def _quick(
        self,
        topic: object,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeaderItems | None,
        wants_future: bool,
    ) -> Any:
        if not self.is_hot or type(topic) is not str:
            return None
        state = self.topic_states.get(topic)
        plain = (value is None or type(value) is bytes) and (key is None or type(key) is bytes)
        if state is None or not plain:
            return None
        found = state.put(key, value, headers, timestamp_ms, partition, wants_future)
        if found is not None or self.quick_room is None:
            return found
        needed_bytes = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + _headers_bytes(headers)
        if needed_bytes > state.record_limit_bytes or not self.quick_room(state, key, partition, needed_bytes):
            return None
        return state.put(key, value, headers, timestamp_ms, partition, wants_future)

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderItems | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> SendFuture:
        """Send a record: a future of its metadata."""
        headers = headers_of(headers)
        future: SendFuture | None = None
        if on_delivery is None:
            future = self._quick(topic, value, key, partition, timestamp_ms, headers, True)
        if future is None:
            future = self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, True)
        return future

    def produce(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderItems | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> None:
        """Send a record without a future: a failure is raised by flush() or close()."""
        headers = headers_of(headers)
        if on_delivery is None and self._quick(topic, value, key, partition, timestamp_ms, headers, False):
            return
        self._send_slowly(topic, value, key, partition, timestamp_ms, headers, on_delivery, False)


class Ready(Coroutine[Any, Any, T]):
    """An awaitable that has its value already: `await` goes on without a turn of the loop. It is a coroutine for
    asyncio, so that a task can be made of it, as of what send() gives when it has to wait."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()
        return self._value

    def send(self, value: Any) -> NoReturn:
        raise StopIteration(self._value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None) -> NoReturn:
        raise kind if value is None else value

    def close(self) -> None:
        """There is nothing to end."""


class AsyncHotPath(HotPath):
    """The same for the asyncio face: send() and produce() are awaited, because they may have to wait for room."""

    def send(  # type: ignore[override]
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderItems | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> Coroutine[Any, Any, SendFuture]:
        """Send a record; `await` returns a future of its metadata as soon as there is room for it."""
        headers = headers_of(headers)
        if on_delivery is None:
            future = self._quick(topic, value, key, partition, timestamp_ms, headers, True)
            if future is not None:
                return Ready(future)
        slow: Coroutine[Any, Any, SendFuture] = self._send_slowly(
            topic, value, key, partition, timestamp_ms, headers, on_delivery, True
        )
        return slow

    def produce(  # type: ignore[override]
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderItems | None = None,
        on_delivery: Callable[..., object] | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Send a record without a future: a failure is raised by flush() or close()."""
        headers = headers_of(headers)
        if on_delivery is None and self._quick(topic, value, key, partition, timestamp_ms, headers, False):
            return Ready(None)
        slow: Coroutine[Any, Any, None] = self._send_slowly(
            topic, value, key, partition, timestamp_ms, headers, on_delivery, False
        )
        return slow


def _headers_bytes(headers: HeaderItems | None) -> int:
    """The most that they take in a record, their count included."""
    items: Any = list(headers.items() if isinstance(headers, dict) else headers or ())
    return len(encode_record(0, 0, None, None, items))
