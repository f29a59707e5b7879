"""Work that takes long, done in stints, so that nobody waits for it but who asked.

A request may name a hundred thousand topics, and one loop serves everybody. Whoever has much to do writes it as a
generator that yields now and then; it runs for STINT_MS at a time, and between two stints the loop serves the others.

    def handle(broker, request, context):
        return broker.long_work.do(_steps(broker, request), context.connection)

    def _steps(broker, request):                    # yields None: others may have their turn
        found = []
        for name in request.names:
            found.append(_one(broker, name))
            yield
        return Answer(found)

1. What is done within its first stint is given at once, as if it were no generator. The rest gives a LongLater.
2. One at a time, first come, first served: however many ask at once, the memory of one long request is taken. What a
   job begins itself comes right behind it, before the others.
3. A generator may also yield a future: it is woken with its result. `apart` makes one of a pure function, which then
   runs in a thread; the loop keeps its turns, because threads change every few milliseconds.
4. A fault is given as the answer, and dispatch.py makes of it what it would have made of it at once.
5. Work for a client that has left is dropped, and so is all that is for a client once the broker stops. What is for
   nobody is always done.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from ottla.broker.requests.answers import Later, gather

log = logging.getLogger(__name__)

A = TypeVar("A")
T = TypeVar("T")

STINT_MS: Final = 4.0

Steps: TypeAlias = Generator[Any, Any, T]


class Client(Protocol):
    """Who waits for the work."""

    @property
    def is_gone(self) -> bool: ...


class LongLater(Later[T]):
    """An answer that took, or takes, more than a stint; an exception stands for a failure."""

    __slots__ = ()


class _Job(NamedTuple):
    steps: Steps[Any]
    later: LongLater[Any]
    client: Client | None


class LongWork:
    """`pool` runs what is `apart`; None runs it on the loop: memory only."""

    def __init__(self, monotonic_ms: Callable[[], float], pool: Executor | None) -> None:
        self._monotonic_ms = monotonic_ms
        self._pool = pool
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None
        self._begun: list[_Job] | None = None  # by the job that runs now
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        return self._task is None

    @property
    def is_at_work(self) -> bool:
        """Whether a job runs just now, and calls us."""
        return self._begun is not None

    def do(self, steps: Steps[T], client: Client | None = None) -> T | LongLater[T]:
        """The result, if one stint is enough for it; its failure is raised. Otherwise the result comes later."""
        end_ms = self._monotonic_ms() + STINT_MS
        try:
            while next(steps) is None:
                if self._monotonic_ms() >= end_ms:
                    return self.do_later(steps, client)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # of what a generator returns nothing is known
        raise TypeError("work that waits for something else begins with `do_later`")

    def do_later(self, steps: Steps[T], client: Client | None = None) -> LongLater[T]:
        """The same, but the first stint has to wait for its turn, too."""
        later: LongLater[T] = LongLater()
        job = _Job(steps, later, client)
        if self._begun is not None:
            self._begun.append(job)
        else:
            self._jobs.append(job)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work_off())
        return later

    async def apart(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that touches nothing but its arguments."""
        if self._pool is None:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def stop(self) -> None:
        """Clients that still wait will not be answered."""
        self._is_stopped = True

    async def _work_off(self) -> None:
        while self._jobs:
            await asyncio.sleep(0)
            job = self._jobs.popleft()
            result = await self._result_of(job)
            if not self._is_unwanted(job):
                self._give(job.later, result)
        self._task = None

    def _give(self, later: LongLater[Any], result: Any) -> None:
        """What goes wrong where the answer goes must not end the work of others."""
        try:
            later.give(result)
        except Exception:
            log.exception("the result of long work could not be handed on")

    async def _result_of(self, job: _Job) -> Any:
        """What the generator returns, or the exception that it ended with."""
        given = None
        while not self._is_unwanted(job):
            try:
                waits_for = self._stint(job.steps, given)
                given = None
                if waits_for is None:
                    await asyncio.sleep(0)
                else:
                    given = await waits_for
            except StopIteration as end:
                return end.value
            except Exception as error:
                return error
        job.steps.close()
        return None

    def _is_unwanted(self, job: _Job) -> bool:
        return job.client is not None and (self._is_stopped or job.client.is_gone)

    def _stint(self, steps: Steps[Any], given: Any) -> Any:
        """Go on until the time is over (None) or something must be waited for (that)."""
        end_ms = self._monotonic_ms() + STINT_MS
        self._begun = []
        try:
            while (waits_for := steps.send(given)) is None and self._monotonic_ms() < end_ms:
                given = None
            return waits_for
        finally:
            self._jobs.extendleft(reversed(self._begun))
            self._begun = None


def ask_each(asked: Iterable[Later[A]], join: Callable[[list[A]], T]) -> Steps[Later[T]]:
    """Ask one after the other, a step each; what `join` makes of all answers is given when the last has come."""
    together: Later[T] = Later()
    waiting = []
    for each in asked:
        waiting.append(each)
        yield
    gather(waiting, lambda answers: together.give(join(answers)))
    return together


def at_once(steps: Steps[T]) -> T:
    """The result of work that is known to be short."""
    try:
        while next(steps) is None:
            pass
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise TypeError("work that waits for something else cannot be done at once")
