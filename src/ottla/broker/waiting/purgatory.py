"""What an `await` rests on: conditions that must come true before a deadline; each waiter is resolved exactly once.

A waiter is watched under keys (partitions, mostly). A change of a partition calls `check(key)`, and every condition
under it is asked again. At its deadline a waiter is resolved with False.

    if await broker.produce_purgatory.wait(is_committed, [partition.name], deadline_ms):
        ...

1. Resolved exactly once: the first of the condition and the deadline wins, and the waiter is forgotten everywhere.
2. `wait` asks once when the waiter is watched: the condition may have come true between the caller's test and the
   moment we knew of it, and nobody would check again.
3. A waiter under thousands of keys has `changed`, which says what the change under one of them means, so that not all
   of them are checked each time.
4. What raises in a condition is raised where the waiter awaits, and reaches nobody else.
5. Waiters that say `in_turn` go on a few in each turn of the loop when their condition comes true, in their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Final, TypeAlias

from ottla.broker.requests.running import resolve
from ottla.broker.waiting.next_turn import NextTurn
from ottla.broker.waiting.timer_wheel import TimerWheel
from ottla.light_tuples import NamedTuple

PER_TURN: Final = 4  # up to a millisecond of answers to consumers, before the next producer is heard

Condition: TypeAlias = Callable[[], bool]
Changed: TypeAlias = Callable[[Hashable], bool]


class _Waiter(NamedTuple):
    future: asyncio.Future[bool]
    is_met: Condition
    changed: Changed | None
    keys: tuple[Hashable, ...]
    in_turn: bool


class Purgatory:
    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        """`wake` is called when a waiter has a deadline that comes before all others."""
        self._wake = wake
        self.watched: dict[Hashable, dict[int, _Waiter]] = {}  # a key that is not in it need not be checked
        self._timers: TimerWheel[int] = TimerWheel()
        self._waiting: dict[int, _Waiter] = {}
        self._next = 0
        self._is_closed = False
        self.turns = NextTurn(PER_TURN)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def watched_count(self) -> int:
        """Keys that waiters are watched under, each as often as it is."""
        return sum(map(len, self.watched.values()))

    def wait(
        self,
        is_met: Condition,
        keys: Iterable[Hashable],
        deadline_ms: float,
        changed: Changed | None = None,
        *,
        in_turn: bool = False,
    ) -> asyncio.Future[bool]:
        """True when the condition is met, False when the time is over or the broker stops.

        `changed` is asked instead of the condition when something changed under a key. Many who wait for the same and
        have time go `in_turn`.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_result(False)
            return future
        number = self._next = self._next + 1
        waiter = self._waiting[number] = _Waiter(future, is_met, changed, tuple(keys), in_turn)
        for key in waiter.keys:
            self.watched.setdefault(key, {})[number] = waiter
        is_next = self._timers.set(number, deadline_ms)
        if is_met():
            self._resolve(number, True)
        elif is_next and self._wake is not None:
            self._wake()
        return future

    def abandon(self, future: asyncio.Future[bool], key: Hashable) -> None:
        """Nobody waits for it any more, where that is not over. `key` is one of its keys."""
        watched = self.watched.get(key, {})
        number = next((number for number, waiter in watched.items() if waiter.future is future), None)
        if number is not None:
            self._forget(number)
            future.cancel()

    def check(self, key: Hashable) -> int:
        """Something changed under `key`; returns how many waiters that resolved."""
        watched = self.watched.get(key)
        if not watched:
            return 0
        count = 0
        for number, waiter in list(watched.items()):
            if number in self._waiting and self._ask(number, waiter, key):
                count += 1
        return count

    def _ask(self, number: int, waiter: _Waiter, key: Hashable) -> bool:
        try:
            is_met = waiter.is_met() if waiter.changed is None else waiter.changed(key)
        except Exception as error:
            self._forget(number)
            if not waiter.future.done():
                waiter.future.set_exception(error)
            return True
        if is_met:
            self._resolve(number, True)
        return is_met

    def expire_due(self, now_ms: float) -> int:
        due = self._timers.pop_due(now_ms)
        for number in due:
            if number in self._waiting:
                self._resolve(number, False)
        return len(due)

    def next_due_ms(self) -> int | None:
        return self._timers.next_due_ms()

    def close(self) -> None:
        """At shut-down: all waiters, now or later, are resolved as if their time were over."""
        self._is_closed = True
        for number in list(self._waiting):
            self._resolve(number, False)

    def _resolve(self, number: int, is_met: bool) -> None:
        waiter = self._waiting[number]
        self._forget(number)
        if waiter.in_turn and is_met:
            self.turns.add(partial(resolve, waiter.future, True))
        else:
            resolve(waiter.future, is_met)

    def _forget(self, number: int) -> None:
        waiter = self._waiting.pop(number)
        self._timers.cancel(number)
        for key in waiter.keys:
            watched = self.watched.get(key)
            if watched is not None:
                watched.pop(number, None)
                if not watched:
                    del self.watched[key]
