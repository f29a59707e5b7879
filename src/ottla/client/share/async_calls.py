"""What both faces of the share consumer do: subscribe, poll, work, commit, close. One text for two.

async_calls.py is that text; sync_calls.py is made of it by `make faces` and is the same without `await`. How a task and
a thread wait is in ../task_waits.py and ../thread_waits.py; only the constructors stand in async_share_consumer.py and
share_consumer.py.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from types import TracebackType

from ottla.client.arguments import callable_of, seconds_of
from ottla.client.consumer.face import ConcurrentUse, WokenUp, checked_limit, seconds
from ottla.client.deadline import Deadline
from ottla.client.share.commits import CommitResult
from ottla.client.share.face import CLOSE_TIMEOUT_S, ITERATION_WAIT_S, POLL_TURN_S, ShareFace, checked_workers
from ottla.client.share.records import ShareRecord
from ottla.client.task_waits import TaskWaits


class AsyncShareCalls(ShareFace, TaskWaits):
    """Everything of a share consumer but its constructor."""

    def _wake_face(self) -> None:
        self._news.set()

    # --- what to read ---

    async def subscribe(self, topics: Iterable[str] | str) -> None:
        """Read these topics, and nothing else."""
        await self._ready()
        await self._run(self._core.subscribe(self._check_topics(topics)))

    async def unsubscribe(self) -> None:
        """Read nothing any more: send the acknowledgements, give back the other records, leave the group."""
        await self._ready()
        self._topics = frozenset()
        self._left.clear()
        await self._run(self._core.leave(Deadline(self._core.clock, self._timeout_ms(None))))
        await self._call_back()

    # --- reading ---

    async def poll(
        self, timeout: float | None = None, *, max_records: int | None = None, timeout_ms: float | None = None
    ) -> list[ShareRecord]:
        """Records, at most `max_records` (max.poll.records); waits up to `timeout` seconds (1) for the first."""
        return self._delivered(await self._poll(seconds(timeout, timeout_ms, 1.0), max_records))

    async def _poll(
        self, timeout: float, max_records: int | None, acquire_mode: int | None = None
    ) -> list[ShareRecord]:
        await self._ready()
        self._check_subscribed()
        limit = checked_limit(self._settings.max_poll_records if max_records is None else max_records)
        if not self._polling.acquire(blocking=False):
            raise ConcurrentUse()
        try:
            self._core.metrics.polled(self._core.clock.monotonic_ms())
            self._begin_poll()
            found = await self._poll_until(Deadline(self._core.clock, timeout * 1000), limit, acquire_mode)
            self._core.waited(bool(found))
            return found
        except BaseException:
            self._core.waited(True)
            raise
        finally:
            self._polling.release()

    async def _poll_until(self, deadline: Deadline, limit: int, acquire_mode: int | None) -> list[ShareRecord]:
        await self._give_turn()
        while True:
            self._core.polled()
            self._news.clear()
            await self._attend()
            found = self._read(limit)
            if found or self._stopping:
                return found
            if not self._core.demand.records:
                self._core.want(limit, acquire_mode)
            if deadline.is_over:
                return found
            await self._wait_for_news(min(deadline.left_ms(), POLL_TURN_S * 1000))

    async def _attend(self) -> None:
        """What only the caller may do: raise errors, run callbacks."""
        if self._woken:
            self._woken = False
            raise WokenUp()
        await self._call_back()
        self._raise_failure()

    async def _call_back(self) -> None:
        while (notice := self._next_notice()) is not None:
            assert self._callback is not None, "there are no notices without one"
            await self._finish(self._callback(notice.offsets, notice.error))

    def wakeup(self) -> None:
        """Let a poll() in another task raise WokenUp, the one that waits now or the next."""
        self._woken = True
        self._news.set()

    async def __aiter__(self) -> AsyncGenerator[ShareRecord, None]:
        """Records one by one, without end; or until none comes for consumer.timeout.ms. In the implicit mode a record
        is accepted when the next one is asked for."""
        limit_ms = self._settings.consumer_timeout_ms
        wait = ITERATION_WAIT_S if limit_ms is None else limit_ms / 1000
        while not self._closed:
            if not self._left:
                self._left.extend(await self._poll(wait, None))
                if not self._left:
                    if limit_ms is not None:
                        return
                    continue
            self._begin_poll()
            if delivered := self._delivered([self._left.popleft()]):
                yield delivered[0]

    # --- working ---

    async def work(
        self,
        handler: Callable[[ShareRecord], Awaitable[object]],
        *,
        workers: int = 1,
        max_records: int | None = None,
        idle: float | None = None,
    ) -> int:
        """Await `handler(record)` in so many tasks, each for as long as it takes: locks are renewed meanwhile. A
        record is accepted when its handler returns and released when it raises, unless the handler said something
        itself. Ends after stop(), after so many records, or after so many seconds without one; returns how many were
        handled."""
        from ottla.client.share.async_workers import AsyncWorkers

        await self._ready()
        checked = callable_of(handler, "a handler")
        return await AsyncWorkers(self, checked, checked_workers(workers)).run(max_records, idle)

    # --- acknowledging ---

    async def commit(self, *, timeout: float | None = None) -> CommitResult:
        """Send what was said of records and wait for the answers: None or an error for each partition. In the implicit
        mode everything that was delivered is accepted before."""
        await self._ready()
        self._accept_implicitly()
        result = await self._run(self._core.commit(self._timeout_ms(timeout)))
        await self._call_back()
        return result

    def commit_async(self) -> None:
        """The same without waiting; the callback of acknowledgements hears what became of it."""
        self._check_usable()
        self._accept_implicitly()
        self._soon(self._core.commit_in_background)

    # --- the end ---

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what was said of records, release the others, leave the group and end everything, within `timeout`
        seconds. A second call does nothing."""
        if self._closed:
            return
        deadline = Deadline(self._core.clock, seconds_of(timeout) * 1000)
        self._closed = True
        if not await self._has_begun():
            return
        await self._end(deadline)
        await self._call_back()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()
