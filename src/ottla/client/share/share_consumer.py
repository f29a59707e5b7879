"""The sync face: a share consumer for programs that are not async.

    with ShareConsumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            with record:                    # accepted at the end, released when it raises
                work(record.value)

or, with as many records at once as there are workers, each for as long as it takes:

        consumer.work(handle, workers=8)

1. poll() is for one thread at a time; records may be acknowledged in any thread. A thread of the consumer's own sends
   heartbeats, acknowledgements and renewals.
2. Every call ends: poll() after its timeout, commit() after default.api.timeout.ms, close() after 30 s, unless they are
   told otherwise. Ctrl-C ends any of them.
3. What is not acknowledged when the consumer is closed is released: somebody else gets it at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.arguments import callable_of, seconds_of
from ottla.client.consumer.consumer import ConcurrentUse, WokenUp
from ottla.client.consumer.face import checked_limit, seconds
from ottla.client.deadline import Deadline
from ottla.client.loop import BackgroundLoop, ForkedClient
from ottla.client.share.commits import CommitResult
from ottla.client.share.core import ShareCore
from ottla.client.share.face import CLOSE_TIMEOUT_S, ITERATION_WAIT_S, POLL_TURN_S, ShareFace, checked_workers
from ottla.client.share.records import ShareRecord

T = TypeVar("T")
log = logging.getLogger(__name__)


class ShareConsumer(ShareFace):
    """Reads records of a share group. Arguments are topics and one mapping of settings; keywords are settings too."""

    def __init__(self, *arguments: str | Mapping[str, object], **settings: Any) -> None:
        topics = self._prepare(arguments, settings)
        self._loop = BackgroundLoop(f"ottla-{self._settings.client_id}")
        self._news = threading.Event()
        self._polling = threading.Lock()
        self._woken = False
        self._core = ShareCore(self._settings, self, news=self._news.set, wake_loop=self._wake)
        self._loop.start()
        try:
            self._loop.run(self._core.start(), CLOSE_TIMEOUT_S)
            if topics:
                self.subscribe(topics)
        except BaseException:
            self._give_up_starting()
            raise

    def _give_up_starting(self) -> None:
        self._closed = True
        try:
            self._loop.run(self._core.close(0), CLOSE_TIMEOUT_S)
        except Exception as error:
            log.debug("a share consumer that could not start was not ended in order: %s", error)
        finally:
            self._loop.close(CLOSE_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        self._loop.call_soon(self._core.wake)

    def _wake_face(self) -> None:
        self._news.set()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the loop do it; whatever it does has a time limit of its own."""
        if self._closed:
            work.close()
            self._check_usable()
        return self._loop.run(work)

    # --- what to read ---

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Read these topics, and nothing else."""
        self._run(self._core.subscribe(self._check_topics(topics)))

    def unsubscribe(self) -> None:
        """Read nothing any more: send the acknowledgements, give back the other records, leave the group."""
        self._check_usable()
        self._topics = frozenset()
        self._left.clear()
        self._run(self._core.leave(Deadline(self._core.clock, self._timeout_ms(None))))
        self._call_back()

    # --- reading ---

    def poll(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ShareRecord]:
        """Records, at most `max_records` (max.poll.records); waits up to `timeout` seconds (1) for the first."""
        return self._delivered(self._poll(seconds(timeout, timeout_ms, 1.0), max_records))

    def _poll(self, timeout: float, max_records: int | None, acquire_mode: int | None = None) -> list[ShareRecord]:
        self._check_subscribed()
        self._loop.check_fork()
        limit = checked_limit(self._settings.max_poll_records if max_records is None else max_records)
        if not self._polling.acquire(blocking=False):
            raise ConcurrentUse()
        try:
            self._core.metrics.polled(self._core.clock.monotonic_ms())
            self._begin_poll()
            found = self._poll_until(Deadline(self._core.clock, timeout * 1000), limit, acquire_mode)
            self._core.waited(bool(found))
            return found
        except BaseException:
            self._core.waited(True)
            raise
        finally:
            self._polling.release()

    def _poll_until(self, deadline: Deadline, limit: int, acquire_mode: int | None) -> list[ShareRecord]:
        while True:
            self._core.polled()
            self._news.clear()
            self._attend()
            found = self._read(limit)
            if found or self._stopping:
                return found
            if not self._core.demand.records:
                self._core.want(limit, acquire_mode)
            left_s = deadline.left_s()
            if left_s <= 0:
                return found
            self._news.wait(min(left_s, POLL_TURN_S))

    def _attend(self) -> None:
        """What only the caller may do: raise errors, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        self._call_back()
        self._raise_failure()

    def _call_back(self) -> None:
        while (notice := self._next_notice()) is not None:
            assert self._callback is not None, "there are no notices without one"
            self._callback(notice.offsets, notice.error)

    def wakeup(self) -> None:
        """Let a poll() in another thread raise WokenUp, the one that waits now or the next."""
        self._woken = True
        self._news.set()

    def __iter__(self) -> Generator[ShareRecord, None, None]:
        """Records one by one, without end; or until none comes for consumer.timeout.ms. In the implicit mode a record
        is accepted when the next one is asked for."""
        limit_ms = self._settings.consumer_timeout_ms
        wait = ITERATION_WAIT_S if limit_ms is None else limit_ms / 1000
        while not self._closed:
            if not self._left:
                self._left.extend(self._poll(wait, None))
                if not self._left:
                    if limit_ms is not None:
                        return
                    continue
            self._begin_poll()
            yield from self._delivered([self._left.popleft()])

    # --- working ---

    def work(
        self,
        handler: Callable[[ShareRecord], object],
        *,
        workers: int = 1,
        max_records: int | None = None,
        idle: float | None = None,
    ) -> int:
        """Call `handler(record)` in so many threads, each for as long as it takes: locks are renewed meanwhile. A
        record is accepted when its handler returns and released when it raises, unless the handler said something
        itself. Ends after stop(), after so many records, or after so many seconds without one; returns how many were
        handled."""
        from ottla.client.share.workers import Workers

        return Workers(self, callable_of(handler, "a handler"), checked_workers(workers)).run(max_records, idle)

    # --- acknowledging ---

    def commit(self, *, timeout: float | None = None) -> CommitResult:
        """Send what was said of records and wait for the answers: None or an error for each partition. In the implicit
        mode everything that was delivered is accepted before."""
        self._check_usable()
        self._accept_implicitly()
        result = self._run(self._core.commit(self._timeout_ms(timeout)))
        self._call_back()
        return result

    def commit_async(self) -> None:
        """The same without waiting; the callback of acknowledgements hears what became of it."""
        self._check_usable()
        self._accept_implicitly()
        self._loop.call_soon(self._core.commit_in_background)

    # --- the end ---

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what was said of records, release the others, leave the group and end everything, within `timeout`
        seconds. A second call does nothing."""
        if self._closed:
            return
        try:
            self._loop.check_fork()
        except ForkedClient:
            self._closed = True
            return
        deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
        self._closed = True
        try:
            self._loop.run(self._core.close(deadline.left_ms()), deadline.left_s() + 1.0)
        except TimeoutError:
            log.warning("%s was not closed in order within %s s", self._settings.client_id, timeout)
        finally:
            self._loop.close(1.0)
        self._call_back()
