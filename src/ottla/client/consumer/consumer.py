"""The sync face: a consumer for programs that are not async.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...

A thread of its own fetches ahead and keeps the membership alive; poll() returns what is there, in the caller's thread.
The names are Java's in snake_case; times are seconds (`timeout`) or milliseconds (`timeout_ms`).

1. poll() is for one thread at a time. wakeup() may be called from any thread, and the other calls do no harm there.
2. Every call ends: poll() after its timeout, the others after default.api.timeout.ms, close() after 30 s, unless they
   are told otherwise. Ctrl-C ends any of them.
3. Rebalance listeners run inside poll(), as in Java. Between polls the group cannot take a partition away; it waits,
   at most for max.poll.interval.ms.
4. In a process that was forked every call raises ForkedClient: the thread stayed in the parent.

The calls themselves stand in sync_calls.py, which is made of async_calls.py, and how a thread waits in
../thread_waits.py; here is how a thread sees a change of the group through, also when Ctrl-C comes in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any

from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.face import ConcurrentUse, WokenUp
from ottla.client.consumer.listeners import Listener
from ottla.client.consumer.record_choice import ConsumerRecord
from ottla.client.consumer.sync_calls import ConsumerCalls
from ottla.client.deadline import Deadline
from ottla.errors import OttlaError

__all__ = ["ConcurrentUse", "Consumer", "WokenUp"]


class Consumer(ConsumerCalls):
    """Reads records. Arguments are topics to subscribe to and one mapping of settings; keywords are settings too."""

    def __init__(self, *arguments: str | Mapping[str, object], **settings: Any) -> None:
        topics = self._prepare(arguments, settings)
        self._prepare_to_wait()
        self._generator: Generator[ConsumerRecord, None, None] | None = None
        self._core = ConsumerCore(self._settings, news=self._news.set, wake_loop=self._wake, portions_ahead=2)
        self._begin(partial(self.subscribe, topics) if topics else None)

    def _subscribe(
        self, topics: Iterable[str] | str | None, pattern: str | re.Pattern[str] | None, listener: object
    ) -> None:
        if Listener(listener).has_coroutines:
            raise TypeError("this listener has coroutines, which only the consumer of ottla.aio can await")
        super()._subscribe(topics, pattern, listener)

    def __next__(self) -> ConsumerRecord:
        if self._generator is None:
            self._generator = iter(self)
        try:
            return next(self._generator)
        except StopIteration:
            self._generator = None
            raise

    def _whole(self, call: Callable[..., Any], *arguments: Any) -> None:
        call(*arguments)

    def _commit_before_revoke(self, limit_ms: float | None) -> BaseException | None:
        try:
            self._run(self._group.commit_before_revoke(self._consumed(), limit_ms))
        except OttlaError:  # the client itself has ended
            raise
        except BaseException as error:
            return error
        return None

    def _leave(self, timeout_ms: float) -> None:
        """Give the partitions back, with the listener, then say goodbye to the group."""
        deadline = Deadline(self._core.clock, timeout_ms)
        failure: Exception | None = None
        leaving = self._loop.submit(self._group.leave(timeout_ms))
        leaving.add_done_callback(lambda _: self._news.set())
        while not leaving.done() and not deadline.is_over:
            self._news.clear()
            failure = self._change_last(deadline) or failure
            if not leaving.done():
                self._news.wait(deadline.left_s())
        if failure is not None:
            raise failure
