"""Operations that wait for a condition or a deadline; each is completed exactly once.

An operation is watched under keys (partitions, mostly). Whoever changes a partition calls `check(key)`, and every
operation under it is asked whether it can be answered now. At its deadline an operation is answered as it is.

1. Completed exactly once: the first of `try_complete() -> True` and the deadline wins, and it is forgotten everywhere.
2. `wait` tries once more after the operation is watched: the condition may have come true between the caller's test
   and the moment we knew of it, and nobody would check again.
3. An operation under thousands of keys says by `changed` what the change under one of them means, so that it need not
   look at all of them each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeAlias

from ottla.broker.waiting.timer_wheel import TimerWheel


class Operation(Protocol):
    def try_complete(self) -> bool:
        """Answer if the condition is met, and say whether it was."""

    def expire(self) -> None:
        """The time is over: answer with what there is."""


Changed: TypeAlias = Callable[[Hashable], bool]


class Purgatory:
    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        """`wake` is called when an operation waits whose deadline comes before all others."""
        self._wake = wake
        self._watched: dict[Hashable, dict[int, Changed]] = {}
        self._keys_of: dict[int, tuple[Hashable, ...]] = {}
        self._timers: TimerWheel[int] = TimerWheel()
        self._waiting: dict[int, Operation] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self,
        operation: Operation,
        keys: Iterable[Hashable],
        deadline_ms: float,
        changed: Changed | None = None,
    ) -> bool:
        """Keep an operation until it completes; True when it could be completed at once.

        `changed` is asked instead of `try_complete` when something changed under a key.
        """
        if operation.try_complete():
            return True
        number = self._next = self._next + 1
        kept = tuple(keys)
        asked = changed or (lambda _: operation.try_complete())
        for key in kept:
            self._watched.setdefault(key, {})[number] = asked
        self._keys_of[number] = kept
        self._waiting[number] = operation
        is_next = self._timers.set(number, deadline_ms)
        if operation.try_complete():
            self._forget(number)
            return True
        if is_next and self._wake is not None:
            self._wake()
        return False

    def check(self, key: Hashable) -> int:
        """Something changed under `key`; gives how many operations that completed."""
        watched = self._watched.get(key)
        if not watched:
            return 0
        completed = 0
        for number, changed in list(watched.items()):
            if number in self._waiting and changed(key):
                self._forget(number)
                completed += 1
        return completed

    def expire_due(self, now_ms: float) -> int:
        due = self._timers.take_due(now_ms)
        for number in due:
            operation = self._waiting.get(number)
            if operation is not None:
                self._forget(number)
                operation.expire()
        return len(due)

    def next_due_ms(self) -> int | None:
        return self._timers.next_due_ms()

    def expire_all(self) -> None:
        """At shut-down: everybody is answered with what there is."""
        for number in list(self._waiting):
            operation = self._waiting.get(number)
            if operation is not None:
                self._forget(number)
                operation.expire()

    def _forget(self, number: int) -> None:
        del self._waiting[number]
        self._timers.cancel(number)
        for key in self._keys_of.pop(number):
            watched = self._watched.get(key)
            if watched is not None:
                watched.pop(number, None)
                if not watched:
                    del self._watched[key]
