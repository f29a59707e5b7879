"""The loads of coordinators: in slices of a few milliseconds, beside everything else that a broker does.

1. A load is a generator that yields wherever others may go first. Its first slice is taken at once, in the caller's own
   turn: an empty partition, and nearly every partition of a small broker, is loaded when `start` returns.
2. Whatever takes longer is continued by one task, a slice per turn of the loop. AT_ONCE loads take slices in rotation,
   so that a large partition does not keep small ones waiting; the others are in line, so memory is bounded.
3. A slice ends after SLICE_MS, or after SLICE_STEPS where time stands still (simulation, tests): there, too, others go
   in between.
4. A load that fails ends alone; what it should have said about that, it has said itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Final, TypeAlias

from ottla.broker.requests.pacing import SLICE_MS
from ottla.broker.requests.running import Background, next_turn, resolve

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
SLICE_STEPS: Final = 256

Load: TypeAlias = Generator[None, None, None]


class Loads:
    def __init__(self, background: Background, monotonic_ms: Callable[[], float]) -> None:
        self._background = background
        self._monotonic_ms = monotonic_ms
        self._active: deque[Load] = deque()
        self._queued: deque[Load] = deque()
        self._waiting: list[asyncio.Future[None]] = []
        self._is_running = False
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        return not self._active

    @property
    def count(self) -> int:
        """How many partitions are being loaded, or wait for it."""
        return len(self._active) + len(self._queued)

    def start(self, load: Load) -> None:
        if self._is_stopped:
            return
        if self._is_running:
            self._queued.append(load)
            self._fill()
        elif self._slice(load):
            self._active.append(load)
            self._is_running = True
            self._background.start(self._run())

    async def wait(self) -> None:
        """Return when nothing is being loaded, or the broker stops."""
        if not self.is_idle:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def stop(self) -> None:
        """The broker stops: what is not loaded by now is not read any further."""
        self._is_stopped = True
        for load in (*self._active, *self._queued):
            load.close()
        self._active.clear()
        self._queued.clear()
        self._idle()

    async def _run(self) -> None:
        try:
            while self._active:
                await next_turn()
                if not self._active:
                    break  # stopped meanwhile
                load = self._active.popleft()
                if self._slice(load):
                    self._active.append(load)
                self._fill()
        finally:
            self._is_running = False
            self._idle()

    def _fill(self) -> None:
        while self._queued and len(self._active) < AT_ONCE:
            self._active.append(self._queued.popleft())

    def _slice(self, load: Load) -> bool:
        """Whether there is more to do."""
        end_ms = self._monotonic_ms() + SLICE_MS
        try:
            for _ in range(SLICE_STEPS):
                next(load)
                if self._monotonic_ms() >= end_ms:
                    break
        except StopIteration:
            return False
        except Exception:
            log.exception("a coordinator could not be loaded")
            return False
        return True

    def _idle(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            resolve(future, None)
