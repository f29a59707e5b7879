"""Who waits until a partition has committed up to an offset: one line per partition, in the order of the offsets.

    await commits.committed(partition, next_offset)           # markers: until it is committed, or cannot be any more
    if not await commits.wait(pending, deadline_ms): ...      # produce requests: also until their time is over

1. A waiter is resolved once: when its offset is committed, when it cannot be any more (the partition's disk failed, it
   is led by another broker, it is gone), or at its deadline. `committed` raises what went wrong; `pending` says it.
2. The high watermark passes waiters from the front of the line. Those behind it are not asked, so a sync that commits
   a hundred requests of a partition costs a hundred steps, and one that commits none costs one.
3. Deadlines cost a comparison each: nearly all waiters are resolved long before. Only the earliest is kept, and when
   it has come, the lines are gone through once.
"""

from __future__ import annotations

import asyncio
import math
from bisect import insort
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Final, Protocol, cast

from ottla.broker.replication.partition import Partition
from ottla.errors import BrokerError, NotLeaderOrFollower
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

TICK_MS: Final = 10
NEVER: Final = math.inf
_by_offset: Final = itemgetter(0)


class Pending(Protocol):
    """What a request wrote to one partition."""

    @property
    def partition(self) -> Partition: ...
    @property
    def next_offset(self) -> int:
        """Committed when the high watermark is here."""

    def is_over(self) -> bool:
        """Whether it is committed, or cannot be any more, which its answer then says."""


class Ending(Pending, Protocol):
    """The same of those who want no future, because many requests end with it."""

    def end(self, *, is_over: bool) -> None:
        """Called once: it is over, or its time is."""


class _Waiter(NamedTuple):
    next_offset: int
    deadline_ms: float
    pending: Pending | None  # None: whoever waits wants the error
    future: asyncio.Future[bool] | None  # None: it is an Ending


class Commits:
    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        """`wake` is called when a waiter has a deadline that comes before all others."""
        self._wake = wake
        self.lines: dict[TopicPartition, deque[_Waiter]] = {}  # a partition without one need not be checked
        self._next_due_ms = NEVER
        self.is_closed = False

    def __len__(self) -> int:
        return sum(map(len, self.lines.values()))

    def waiting_for(self, name: TopicPartition) -> int:
        """How many wait for one partition."""
        return len(self.lines.get(name, ()))

    def committed(self, partition: Partition, next_offset: int) -> asyncio.Future[bool]:
        """Done when everything before `next_offset` is committed; raises when that cannot be any more."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if partition.high_watermark >= next_offset:
            future.set_result(True)
        elif partition.offline is not None:
            future.set_exception(partition.offline)
        else:
            self._add(partition.name, _Waiter(next_offset, NEVER, None, future))
        return future

    def wait(self, pending: Pending, deadline_ms: float) -> asyncio.Future[bool]:
        """True when it is over, False when its time is, or the broker stops. It is not over yet."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            future.set_result(False)
        else:
            self._hold(pending, deadline_ms, future)
        return future

    def hold(self, ending: Ending, deadline_ms: float) -> None:
        """The same without a future; not when this is closed."""
        assert not self.is_closed, "the broker stops: nothing is committed any more"
        self._hold(ending, deadline_ms, None)

    def _hold(self, pending: Pending, deadline_ms: float, future: asyncio.Future[bool] | None) -> None:
        self._add(pending.partition.name, _Waiter(pending.next_offset, deadline_ms, pending, future))
        if deadline_ms < self._next_due_ms:
            self._next_due_ms = deadline_ms
            if self._wake is not None:
                self._wake()

    def _add(self, name: TopicPartition, waiter: _Waiter) -> None:
        line = self.lines.get(name)
        if line is None:
            self.lines[name] = deque((waiter,))
        elif line[-1][0] <= waiter[0]:
            line.append(waiter)
        else:  # a batch that was there already, and is not committed yet
            insort(line, waiter, key=_by_offset)

    # -- resolving -----------------------------------------------------------------------------------------------------

    def check(self, partition: Partition) -> None:
        """The high watermark of this partition moved, its disk failed, or its leader or in-sync replicas changed."""
        line = self.lines.get(partition.name)
        if line is None:
            return
        if partition.offline is not None:
            self._refuse(partition.name, partition.offline, partition.high_watermark)
        elif not partition.is_leader or partition.in_sync_count < partition.min_in_sync_count:
            self._ask_all(partition.name, partition.high_watermark)
        else:
            _pass(line, partition.high_watermark)
            if not line:
                del self.lines[partition.name]

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here, or is led by another broker."""
        self._refuse(name, NotLeaderOrFollower(f"{name} is not on this broker any more"))

    def _ask_all(self, name: TopicPartition, high_watermark: int) -> None:
        """Each is asked: its answer may be an error, or it may wait on."""
        waiting = self.lines.pop(name, ())
        for each in waiting:
            if each.next_offset <= high_watermark if each.pending is None else each.pending.is_over():
                _resolve(each, True)
            else:
                self._add(name, each)

    def _refuse(self, name: TopicPartition, error: BrokerError, high_watermark: int = -1) -> None:
        """Whoever wants the error gets it, unless he is committed; requests say themselves what became of them."""
        self._ask_all(name, high_watermark)
        line = self.lines.pop(name, ())
        for each in line:
            if each.pending is not None:
                self._add(name, each)
            elif each.future is not None and not each.future.done():
                each.future.set_exception(error)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When the lines must be gone through; whoever has the earliest deadline may be resolved by then."""
        return None if self._next_due_ms == NEVER else -int(-self._next_due_ms // TICK_MS) * TICK_MS

    def expire_due(self, now_ms: float) -> int:
        if now_ms < self._next_due_ms:
            return 0
        self._next_due_ms = NEVER
        return sum([self._expire(name, now_ms) for name in list(self.lines)])

    def _expire(self, name: TopicPartition, now_ms: float) -> int:
        line = self.lines.pop(name)
        late = [each for each in line if each.deadline_ms <= now_ms]
        still = deque(each for each in line if each.deadline_ms > now_ms)
        if still:
            self.lines[name] = still
            self._next_due_ms = min(self._next_due_ms, *[each.deadline_ms for each in still])
        for each in late:
            _resolve(each, False)
        return len(late)

    def close(self) -> None:
        """At shut-down: requests, now or later, are resolved as if their time were over."""
        self.is_closed = True
        self._next_due_ms = NEVER
        for name, line in list(self.lines.items()):
            self.lines[name] = deque(each for each in line if each.pending is None)
            for each in line:
                if each.pending is not None:
                    _resolve(each, False)


def _pass(line: deque[_Waiter], high_watermark: int) -> None:
    while line and line[0][0] <= high_watermark:
        _resolve(line.popleft(), True)


def _resolve(waiter: _Waiter, is_over: bool) -> None:
    _, _, pending, future = waiter
    if future is None:
        assert pending is not None, "who wants no future ends by itself"
        cast(Ending, pending).end(is_over=is_over)
    elif not future.done():  # whoever waits may have been cancelled
        future.set_result(is_over)
