"""Messages for topics that are not known yet: produce() returns at once, a thread sends them when the topic is known.

1. A topic is unknown until the cluster has described it. Its messages wait here, in order, and are sent in order; a
   message is never sent past one of the same topic that waits.
2. A message that waits longer than message.timeout.ms fails with _MSG_TIMED_OUT, one for a topic that is not there with
   what the cluster said.
3. The thread ends when nothing waits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from ottla.client.producer.values import DeliveryTimedOut
from ottla.errors import OttlaError, UnknownTopicOrPartition
from ottla.light_tuples import NamedTuple


class Waiting(NamedTuple):
    """One message: how it is sent, and who hears that it cannot be."""

    send: Callable[[], None]
    fail: Callable[[BaseException], None]
    until: float


class Backlog:
    """What waits, by topic. `find` asks for a topic for a moment and raises why it is not known."""

    def __init__(self, find: Callable[[str], Any], limit_s: float, missing_limit_s: float) -> None:
        self._find = find
        self._limit_s = limit_s
        self._missing_limit_s = missing_limit_s
        self._topics: dict[str, deque[Waiting]] = {}
        self._known: set[str] = set()
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._sending = 0

    def __len__(self) -> int:
        return sum(map(len, list(self._topics.values()))) + self._sending

    def knows(self, topic: str) -> bool:
        """Whether messages for it can be sent at once."""
        return topic in self._known

    def put(self, topic: str, send: Callable[[], None], fail: Callable[[BaseException], None]) -> None:
        """Wait for the topic; sent here and now when it has become known meanwhile."""
        with self._lock:
            if topic not in self._known:
                self._topics.setdefault(topic, deque()).append(Waiting(send, fail, monotonic() + self._limit_s))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="ottla-compat-backlog", daemon=True)
                    self._thread.start()
                return
        send()

    def wait(self, deadline: float | None) -> None:
        """Until nothing waits, or the time is over."""
        with self._lock:
            while self._topics and ((left := 1.0 if deadline is None else deadline - monotonic()) > 0):
                self._lock.wait(left)

    def purge(self, error: BaseException) -> None:
        """Fail everything that waits."""
        with self._lock:
            dropped = [each for waiting in self._topics.values() for each in waiting]
            self._topics.clear()
            self._lock.notify_all()
        for each in dropped:
            each.fail(error)

    def close(self, error: BaseException) -> None:
        self._closed = True
        self.purge(error)

    def _run(self) -> None:
        missing_since: dict[str, float] = {}
        while True:
            with self._lock:
                topics = list(self._topics)
                if not topics or self._closed:
                    self._thread = None
                    self._lock.notify_all()
                    return
            for topic in topics:
                self._try(topic, missing_since)

    def _try(self, topic: str, missing_since: dict[str, float]) -> None:
        try:
            self._find(topic)
        except (OttlaError, TimeoutError) as error:
            if isinstance(error, UnknownTopicOrPartition):
                began = missing_since.setdefault(topic, monotonic())
                if monotonic() - began >= self._missing_limit_s:
                    self._expire(topic, error, everything=True)
            self._expire(topic, error, everything=not getattr(error, "retriable", True))
            return
        self._drain(topic)

    def _expire(self, topic: str, error: BaseException, *, everything: bool) -> None:
        late = DeliveryTimedOut(f"the topic {topic} did not become known in time: {error}")
        dropped = []
        with self._lock:
            waiting = self._topics.get(topic, deque())
            while waiting and (everything or waiting[0].until <= monotonic()):
                dropped.append(waiting.popleft())
            if not waiting:
                self._topics.pop(topic, None)
                self._lock.notify_all()
        for each in dropped:
            each.fail(error if everything else late)

    def _drain(self, topic: str) -> None:
        while True:
            with self._lock:
                waiting = self._topics.get(topic)
                if not waiting:
                    self._topics.pop(topic, None)
                    self._known.add(topic)
                    self._lock.notify_all()
                    return
                each = waiting.popleft()
                self._sending = 1
            try:
                each.send()
            except Exception as error:
                each.fail(error)
            self._sending = 0
