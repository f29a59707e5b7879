"""Connections that outlive a task: Spark forks its workers from a daemon and uses them again.

At most KEPT_MAX of a kind stay open, each for IDLE_S after its last task. One belongs to the process that made it and
to one task at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar


class Keepable(Protocol):
    """What can be kept: it knows whether it is still good for anything."""

    @property
    def is_usable(self) -> bool: ...
    def close(self) -> None: ...


K = TypeVar("K")
T = TypeVar("T", bound=Keepable)

KEPT_MAX: Final = 8
IDLE_S: Final = 60.0


class KeptForTasks(Generic[K, T]):
    """Things that wait for the next task of this process, by what they were made with."""

    def __init__(
        self,
        make: Callable[[K], T],
        *,
        kept_max: int = KEPT_MAX,
        idle_s: float = IDLE_S,
        timer: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        self._make = make
        self._kept_max = kept_max
        self._idle_s = idle_s
        self._timer = timer or _daemon_timer
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: list[tuple[K, T, Any]] = []

    def take(self, settings: K) -> T:
        """One that waits, else a new one."""
        self._notice_fork()
        with self._lock:
            for index, (made_with, kept, timer) in enumerate(self._waiting):
                if made_with == settings:
                    del self._waiting[index]
                    timer.cancel()
                    return kept
        return self._make(settings)

    def give_back(self, settings: K, kept: T) -> None:
        """Keep it for the next task; the one idle longest is closed for it."""
        self._notice_fork()
        if not kept.is_usable:
            return
        timer = self._timer(self._idle_s, lambda: self._close_idle(kept))
        with self._lock:
            self._waiting.append((settings, kept, timer))
            surplus = self._waiting[: -self._kept_max]
            del self._waiting[: -self._kept_max]
        for _, old, old_timer in surplus:
            old_timer.cancel()
            old.close()

    def _close_idle(self, kept: T) -> None:
        with self._lock:
            count = len(self._waiting)
            self._waiting = [entry for entry in self._waiting if entry[1] is not kept]
            is_mine = len(self._waiting) < count
        if is_mine:
            kept.close()

    def close(self) -> None:
        """Close all that wait."""
        self._notice_fork()
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, kept, timer in waiting:
            timer.cancel()
            kept.close()

    def _notice_fork(self) -> None:
        """What the parent keeps is the parent's: its threads and its lock did not come along."""
        if os.getpid() != self._pid:
            self._begin()


def _daemon_timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer
