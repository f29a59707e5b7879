"""Group commit: partitions that must be on disk before they are acknowledged share rounds of syncs (sync_round.py).

A log directory has one round at a time. What is marked while it runs goes with the next one, which begins when it has
ended. So a hundred waiting producers share one fdatasync, a lone one waits for one, and a slow disk holds up nobody who
waits for another.

1. Nothing but `FlushJob.run` leaves the loop's thread; state changes when the round is back on the loop. It comes back
   once, with all of its partitions.
2. A sync covers what was appended before it began: the job of a partition is made when its round begins.
3. Every partition of a round is reported, as flushed or as failed, whatever its job raised; and the next round comes,
   whatever a listener raises.
4. A job that fails is reported once and never tried again: after a failed sync the disk may lie about what it has. Only
   what could not even be begun, because something ran out (StorageExhausted), is tried again after RETRY_MS.
5. What many connections want to append can wait until a round begins, and then be appended together (`expect`).
6. A round waits for more while more comes: as long as every turn of the loop has marked something, but no longer than
   the round before took. A sync costs the same for one request as for two hundred, and nobody waits twice as long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from ottla.broker.housekeeping.sync_round import Flush, SyncRound, flush_of, run_all
from ottla.broker.replication.partition import Partition
from ottla.clock import Clock
from ottla.errors import KafkaStorageError, StorageExhausted
from ottla.light_tuples import NamedTuple
from ottla.storage.files import Files
from ottla.values import TopicPartition

RETRY_MS: Final = 100
WINDOW_LIMIT_MS: Final = 2.0

log = logging.getLogger(__name__)


class _Lane:
    """The rounds of one log directory."""

    __slots__ = (
        "began_ms",
        "is_expected",
        "is_planned",
        "marked",
        "marks",
        "marks_before",
        "planned_ms",
        "round",
        "window_ms",
    )

    def __init__(self) -> None:
        self.marked: dict[TopicPartition, Partition] = {}
        self.round: SyncRound | None = None
        self.is_planned = False
        self.is_expected = False  # something will be appended when the next round begins
        self.marks = self.marks_before = 0
        self.planned_ms = self.began_ms = 0.0
        self.window_ms = 0.0  # how long the next round may wait for more


class FlushRounds(NamedTuple):
    """Of all log directories together: rounds that run now, partitions that wait for the next, how long it may wait."""

    running: int
    marked: int
    window_ms: float


class Flusher:
    """Rounds of group commit on the loop that owns the partitions. `pool` None syncs on the loop: memory only."""

    def __init__(
        self,
        pool: Executor | None,
        *,
        clock: Clock,
        flushed: Callable[[Partition], None],
        failed: Callable[[Partition, KafkaStorageError], None],
        synced_in: Callable[[float, int], None] = lambda took_ms, count: None,
        before_round: Callable[[], None] = lambda: None,
    ) -> None:
        self._synced_in = synced_in
        self._before_round = before_round
        self._pool = pool
        self._clock = clock
        self._flushed = flushed
        self._failed = failed
        self._lanes: dict[Files, _Lane] = {}
        self._retrying = 0

    @property
    def is_idle(self) -> bool:
        return not self._retrying and all(
            not (lane.marked or lane.is_expected or lane.round is not None or lane.is_planned)
            for lane in self._lanes.values()
        )

    @property
    def rounds(self) -> FlushRounds:
        lanes = self._lanes.values()
        return FlushRounds(
            sum(lane.round is not None for lane in lanes),
            sum(len(lane.marked) for lane in lanes),
            max((lane.window_ms for lane in lanes), default=0.0),
        )

    def mark(self, partition: Partition) -> None:
        """This partition has something that must reach the disk."""
        lane = self._lane_of(partition)
        lane.marked[partition.name] = partition
        lane.marks += 1
        if lane.round is None and not lane.is_planned:
            self._plan(lane)

    def expect(self, partition: Partition) -> None:
        """Something is appended to this partition, and marks it, when the next round begins: `before_round` does it."""
        lane = self._lanes.get(partition.log.files) or self._lane_of(partition)
        lane.is_expected = True
        lane.marks += 1
        if lane.round is None and not lane.is_planned:
            self._plan(lane)

    def _lane_of(self, partition: Partition) -> _Lane:
        door = partition.log.files
        lane = self._lanes.get(door)
        if lane is None:
            lane = self._lanes[door] = _Lane()
        return lane

    # -- a round begins ------------------------------------------------------------------------------------------------

    def _plan(self, lane: _Lane) -> None:
        # After this turn of the loop, so that requests which arrived together are committed together.
        lane.is_planned = True
        lane.marks_before = lane.marks
        lane.planned_ms = self._clock.monotonic_ms()
        asyncio.get_running_loop().call_soon(self._begin_or_wait, lane)

    def _begin_or_wait(self, lane: _Lane) -> None:
        """Begin the round, unless this turn of the loop has brought more, and so may the next."""
        if lane.marks > lane.marks_before and self._clock.monotonic_ms() - lane.planned_ms < lane.window_ms:
            lane.marks_before = lane.marks
            asyncio.get_running_loop().call_soon(self._begin_or_wait, lane)
        else:
            self._begin(lane)

    def _begin(self, lane: _Lane) -> None:
        if lane.is_expected:
            lane.is_expected = False
            self._before_round()
        lane.is_planned = False
        marked, lane.marked = list(lane.marked.values()), {}
        flushes = [flush_of(partition) for partition in marked if partition.offline is None]
        if not flushes:
            return
        lane.began_ms = self._clock.monotonic_ms()
        if self._pool is None:
            results = run_all(flushes)
            self._synced_in(self._clock.monotonic_ms() - lane.began_ms, len(results))
            self._report_all(lane, results)
            return
        lane.round = SyncRound(self._pool, flushes, lambda: self._end(lane))
        lane.round.start()

    # -- and ends ------------------------------------------------------------------------------------------------------

    def _end(self, lane: _Lane) -> None:
        assert lane.round is not None, "who has ended was begun"
        results, lane.round = lane.round.results(), None
        took_ms = self._clock.monotonic_ms() - lane.began_ms
        lane.window_ms = min(took_ms, WINDOW_LIMIT_MS)
        self._synced_in(took_ms, len(results))
        self._report_all(lane, results)

    def _report_all(self, lane: _Lane, flushes: list[Flush]) -> None:
        for flush in flushes:
            try:
                self._report(lane, flush)
            except Exception:
                log.exception("%s: whoever waits for its sync could not be told of it", flush.partition.name)
        if (lane.marked or lane.is_expected) and lane.round is None and not lane.is_planned:
            self._plan(lane)

    def _report(self, lane: _Lane, flush: Flush) -> None:
        partition, job, error, of_log = flush
        if of_log is not None and of_log is not partition.log:
            self._moved(partition)
        elif isinstance(error, StorageExhausted):
            log.warning("%s is synced a little later: %s", partition.name, error)
            self._retry_later(partition)
        elif error is not None or job is None:
            self._failed(partition, error or KafkaStorageError(f"{partition.name} could not be synced"))
        else:
            partition.log.flushed(job, self._clock.now_ms())
            self._flushed(partition)
            if partition.needs_flush:
                lane.marked[partition.name] = partition

    def _moved(self, partition: Partition) -> None:
        """Its log went to another directory meanwhile, synced; whatever became of the old one does not matter."""
        self._flushed(partition)
        if partition.needs_flush:
            self.mark(partition)

    def _retry_later(self, partition: Partition) -> None:
        self._retrying += 1

        def retry() -> None:
            self._retrying -= 1
            self.mark(partition)

        self._clock.call_later(RETRY_MS, retry)
