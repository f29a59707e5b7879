"""Large requests make pauses, so that nobody waits for them but who asked.

A request may name a hundred thousand topics, and one loop serves everybody. Whoever has much to do pauses now and then:

    with broker.pacing.turn(context.connection) as pace:
        for name in request.names:
            found.append(describe(name))
            await pace.step()                      # a pause when SLICE_MS are used up, otherwise nothing

1. What is done within its first slice pauses never, and costs a look at the clock per step.
2. Whoever needs more waits for the turn: one long request at a time, first come, first served. So however many ask at
   once, the memory of one long request is used. While it runs, its connection is held: no other request of it begins.
3. `release` gives the turn away before something else is awaited, so that nobody queues behind it.
4. `apart` runs a function that touches nothing but its arguments in a thread; the loop keeps its turns, because threads
   change every few milliseconds.
5. Work for a client that has left, or for any client once the broker stops, ends with CloseConnection at its next
   pause. Work for nobody is always finished, and so is what `always_finishes`: records that came whole are appended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Executor
from types import TracebackType
from typing import Final, Protocol, TypeVar, TypeVarTuple

from ottla.broker.network.processor import CloseConnection
from ottla.broker.requests.running import next_turn

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

SLICE_MS: Final = 4.0


class Client(Protocol):
    """Who waits for the work: a connection (context.ClientConnection)."""

    @property
    def is_gone(self) -> bool: ...

    def hold(self) -> None:
        """Begin no other request of this client until this one is answered."""


class Pacing:
    """`pool` runs what is `apart`; None runs it on the loop: memory only."""

    def __init__(self, monotonic_ms: Callable[[], float], pool: Executor | None) -> None:
        self.monotonic_ms = monotonic_ms
        self._pool = pool
        self.lock = asyncio.Lock()
        self.is_stopped = False

    @property
    def is_idle(self) -> bool:
        return not self.lock.locked()

    def turn(self, client: Client | None = None, *, always_finishes: bool = False) -> Pace:
        return Pace(self, client, always_finishes)

    async def apart(self, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
        if self._pool is None:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    def stop(self) -> None:
        """Clients that still wait will not be answered."""
        self.is_stopped = True


class Pace:
    """The pace of one request."""

    __slots__ = ("_always_finishes", "_client", "_end_ms", "_has_turn", "_pacing", "is_long")

    def __init__(self, pacing: Pacing, client: Client | None, always_finishes: bool) -> None:
        self._pacing = pacing
        self._always_finishes = always_finishes or client is None
        self._client = client
        self._has_turn = False
        self._end_ms = pacing.monotonic_ms() + SLICE_MS
        self.is_long = False

    def __enter__(self) -> Pace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def step(self) -> None:
        if self._pacing.monotonic_ms() >= self._end_ms:
            await self.pause()

    async def pause(self) -> None:
        """Let others go first; the first pause waits for the turn."""
        if not self.is_long and self._client is not None:
            self._client.hold()
        self.is_long = True
        if self._has_turn:
            await next_turn()
        else:
            await self._pacing.lock.acquire()
            self._has_turn = True
            await next_turn()
        if not self._always_finishes and self._client is not None and (self._pacing.is_stopped or self._client.is_gone):
            raise CloseConnection("the client has left, or the broker stops")
        self._end_ms = self._pacing.monotonic_ms() + SLICE_MS

    async def run(self, pieces: Generator[None, None, T]) -> T:
        """What a generator returns that yields wherever a pause is possible."""
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # of what a generator returns nothing is known
            await self.step()

    def release(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._pacing.lock.release()
