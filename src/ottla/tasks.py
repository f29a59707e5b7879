"""Periodic and delayed jobs on a clock (Kafka's scheduler).

1. `Schedule` decides: which jobs are due at a moment, and when to look again. It has no clock, no loop and no
   randomness of its own; `TaskRunner` at the end of this file is the thin loop that acts.
2. Jobs due at the same moment start in the order they were scheduled.
3. A period is the pause between the end of one run and the start of the next, so a slow job never overtakes itself.
   Jitter is added to each pause, to keep a hundred brokers from doing the same thing at the same moment. An action that
   returns None is over at once; only one that must be awaited costs a task.
4. A job that fails is reported and goes on with its period; the others do not notice.
5. Limits: `limit` jobs in a schedule (then LimitReached), `at_once` running in a runner (then due jobs wait).

Owned by one thread; from another, hand over with call_soon_threadsafe.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from ottla.clock import Clock
from ottla.errors import LimitReached
from ottla.light_dataclasses import dataclass, field
from ottla.ordered_set import OrderedSet

log = logging.getLogger(__name__)

Action = Callable[[], Awaitable[None] | None]
JOBS_LIMIT: Final = 100_000


@dataclass(slots=True, eq=False)
class Job:
    """Something to do at `due_ms`, and again after each pause if it has a period."""

    name: str
    action: Action = field(repr=False)
    due_ms: float
    period_ms: float | None = None
    jitter_ms: float = 0.0
    cancelled: bool = False


class Schedule:
    """What is due, and when the next is."""

    def __init__(self, random_share: Callable[[], float], *, limit: int = JOBS_LIMIT) -> None:
        """`random_share` returns numbers from 0 to 1 for the jitter, such as Random(seed).random."""
        self._random_share = random_share
        self._limit = limit
        self._waiting: list[tuple[float, int, Job]] = []
        self._live: OrderedSet[Job] = OrderedSet()
        self._scheduled = 0

    def __len__(self) -> int:
        """Jobs that wait or run."""
        return len(self._live)

    def once(self, name: str, action: Action, *, now_ms: float, delay_ms: float = 0) -> Job:
        """Run it one time, after a delay."""
        return self._add(Job(name, action, now_ms + max(0.0, delay_ms)))

    def every(
        self, name: str, action: Action, *, now_ms: float, period_ms: float, delay_ms: float = 0, jitter_ms: float = 0
    ) -> Job:
        """Run it after a delay and then again and again, with the period and up to the jitter between two runs."""
        if period_ms <= 0 or jitter_ms < 0:
            raise ValueError(f"job {name!r} needs a period above 0 ms and no negative jitter, not {period_ms} ms")
        due_ms = now_ms + max(0.0, delay_ms) + jitter_ms * self._random_share()
        return self._add(Job(name, action, due_ms, period_ms, jitter_ms))

    def cancel(self, job: Job) -> None:
        """Do not start it again. A run that is under way ends by itself; cancelling twice is fine."""
        if job.cancelled:
            return
        job.cancelled = True
        self._live.discard(job)
        # Entries of cancelled jobs stay in the heap until they are due; this keeps them from filling it.
        if len(self._waiting) > 64 and len(self._waiting) > 2 * len(self._live):
            self._waiting = [entry for entry in self._waiting if not entry[2].cancelled]
            heapq.heapify(self._waiting)

    def next_due_ms(self) -> float | None:
        """When to look again; None when nothing waits."""
        while self._waiting and self._waiting[0][2].cancelled:
            heapq.heappop(self._waiting)
        return self._waiting[0][0] if self._waiting else None

    def take_due(self, now_ms: float, limit: int = JOBS_LIMIT) -> list[Job]:
        """The jobs to start now, at most `limit`. Tell `ended` about each of them, or it will not come again."""
        jobs: list[Job] = []
        while len(jobs) < limit:
            due_ms = self.next_due_ms()
            if due_ms is None or due_ms > now_ms:
                break
            jobs.append(heapq.heappop(self._waiting)[2])
        return jobs

    def ended(self, job: Job, now_ms: float) -> None:
        """A run is over, well or not: a periodic job waits for its next one."""
        if job.period_ms is None or job.cancelled:
            self._live.discard(job)
            return
        job.due_ms = now_ms + job.period_ms + job.jitter_ms * self._random_share()
        self._push(job)

    def _add(self, job: Job) -> Job:
        if len(self._live) >= self._limit:
            raise LimitReached(f"job {job.name!r} is not scheduled, because {self._limit} jobs are")
        self._live.add(job)
        self._push(job)
        return job

    def _push(self, job: Job) -> None:
        self._scheduled += 1
        heapq.heappush(self._waiting, (job.due_ms, self._scheduled, job))


def log_failure(job: Job, error: Exception) -> None:
    """The usual handler: say it in the log with its trace."""
    log.error("job %r failed; it goes on if it has a period", job.name, exc_info=error)


class TaskRunner:
    """Runs a schedule on an event loop until it is cancelled."""

    def __init__(
        self,
        schedule: Schedule,
        clock: Clock,
        *,
        on_failure: Callable[[Job, Exception], None] = log_failure,
        at_once: int = 10,
        took: Callable[[Job, float], None] | None = None,
    ) -> None:
        """`took` hears how long each step of a job held the loop, in ms."""
        self._schedule = schedule
        self._clock = clock
        self._on_failure = on_failure
        self._at_once = at_once
        self._took = took
        self._running: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._changed: asyncio.Future[None] | None = None  # while it sleeps

    def once(self, name: str, action: Action, *, delay_ms: float = 0) -> Job:
        """Schedule a job from now on, and let a sleeping runner know."""
        job = self._schedule.once(name, action, now_ms=self._clock.monotonic_ms(), delay_ms=delay_ms)
        self._notify()
        return job

    def every(self, name: str, action: Action, *, period_ms: float, delay_ms: float = 0, jitter_ms: float = 0) -> Job:
        """Schedule a periodic job from now on, and let a sleeping runner know."""
        job = self._schedule.every(
            name,
            action,
            now_ms=self._clock.monotonic_ms(),
            period_ms=period_ms,
            delay_ms=delay_ms,
            jitter_ms=jitter_ms,
        )
        self._notify()
        return job

    def cancel(self, job: Job) -> None:
        self._schedule.cancel(job)

    async def run(self) -> None:
        """Work until cancelled; then cancel what is running and wait for its end."""
        try:
            while True:
                self._start_due()
                await self._wait()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _start_due(self) -> None:
        room = self._at_once - len(self._running)
        for job in self._schedule.take_due(self._clock.monotonic_ms(), room):
            began_ms = self._clock.monotonic_ms()
            try:
                outcome = job.action()
            except Exception as error:
                self._report(job, error)
                outcome = None
            if self._took is not None:
                self._took(job, self._clock.monotonic_ms() - began_ms)
            if outcome is None:  # it is done: most checks find nothing to do, several times a second
                self._schedule.ended(job, self._clock.monotonic_ms())
                continue
            task = asyncio.create_task(self._finish(job, outcome), name=job.name)
            self._running.add(task)
            task.add_done_callback(self._one_ended)

    async def _finish(self, job: Job, outcome: Awaitable[None]) -> None:
        try:
            await (outcome if self._took is None else self._timed(job, outcome))
        except Exception as error:
            self._report(job, error)
        finally:
            self._schedule.ended(job, self._clock.monotonic_ms())

    @types.coroutine
    def _timed(self, job: Job, outcome: Awaitable[None]) -> Generator[Any, None, None]:
        """The same steps, each with how long it took."""
        assert self._took is not None, "somebody listens"
        steps = outcome.__await__()
        error: BaseException | None = None
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                # Whoever is cancelled hears of it where it waits.
                waits_for = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                return
            finally:
                self._took(job, self._clock.monotonic_ms() - began_ms)
            error = None
            try:
                yield waits_for
            except BaseException as thrown:
                error = thrown

    def _report(self, job: Job, error: Exception) -> None:
        try:
            self._on_failure(job, error)
        except Exception:
            log.exception("the handler for failed jobs failed itself, on job %r: %s", job.name, error)

    def _one_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._notify()

    async def _wait(self) -> None:
        """Until the next job is due, a new one comes or a running one ends."""
        # Nothing awaits between looking at the schedule and here, so no change can fall in between unseen.
        changed = self._changed = asyncio.get_running_loop().create_future()
        due_ms = self._schedule.next_due_ms()
        if due_ms is None or len(self._running) >= self._at_once:
            await changed
            return
        timer = self._clock.call_later(due_ms - self._clock.monotonic_ms(), self._notify)
        try:
            await changed
        finally:
            timer.cancel()

    def _notify(self) -> None:
        """Let a sleeping runner look at the schedule."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
