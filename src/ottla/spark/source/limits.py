"""How much one batch of a stream reads, when options limit it. Nothing here waits or asks; clocks come as numbers.

    maxOffsetsPerTrigger   at most so many offsets, shared by what waits in each partition
    maxBytesPerTrigger     so many bytes, by the mean size of the records that come next in each topic
    maxTimePerTrigger      so many offsets as batches before have read in that time
    minOffsetsPerTrigger   nothing until so many offsets wait, but no longer than maxTriggerDelay

1. Shares are by volume, so that partitions come to their ends together; and every partition that has anything gets at
   least one offset, so that none starves. Only for that a batch may pass its limit.
2. Several limits: the smallest counts in each partition.
3. An offset is not always a record (compaction, transactions), so batches may have fewer records than offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from ottla.values import TopicPartition

FIRST_SHARE: Final = 100_000
"""What the first batch reads under maxTimePerTrigger, when nothing is known yet about how fast the query is."""
GROWTH_MAX: Final = 4.0
REMEMBERED: Final = 4
ALIKE: Final = 0.1
ROUND_MS: Final = 10_000
"""Triggers come at whole multiples of their interval; those that are longer than a limit are whole in ten seconds."""
ROUND_WITHIN_MS: Final = 250
NO_LIMIT: Final = 2**62

Counts = dict[TopicPartition, int]


def share_offsets(waiting: Mapping[TopicPartition, int], limit: int) -> Counts:
    """How many offsets of each partition are read, of those that wait; `limit` in all."""
    counts = {each: count for each, count in waiting.items() if count > 0}
    total = sum(counts.values())
    if total <= limit:
        return counts
    shares: Counts = {}
    large, left = dict(counts), limit
    # Those whose share would be less than one get one; the others share what is left.
    while tiny := _below_one(large, left):
        shares |= dict.fromkeys(tiny, 1)
        large = {each: count for each, count in large.items() if each not in shares}
        left = max(0, left - len(tiny))
    return shares | _by_volume(large, left)


def _below_one(counts: Mapping[TopicPartition, int], limit: int) -> list[TopicPartition]:
    total = sum(counts.values())
    return [each for each, count in counts.items() if limit * count < total]


def _by_volume(counts: Mapping[TopicPartition, int], limit: int) -> Counts:
    """Exactly `limit` in all, each in proportion; what rounding leaves goes to those who lost most by it."""
    total = sum(counts.values())
    shares = {each: limit * count // total for each, count in counts.items()}
    by_loss = sorted(counts, key=lambda each: (-(limit * counts[each] % total), each))
    for each in by_loss[: limit - sum(shares.values())] if counts else ():
        shares[each] += 1
    return shares


def share_bytes(waiting: Mapping[TopicPartition, int], mean_bytes: Mapping[str, float], limit_bytes: int) -> Counts:
    """The same by size: each partition gives the same part of what waits, so that all is about `limit_bytes`."""
    counts = {each: count for each, count in waiting.items() if count > 0}
    total = sum(count * mean_bytes[each.topic] for each, count in counts.items())
    if total <= limit_bytes:
        return counts
    part = limit_bytes / total
    return {each: max(1, int(count * part)) for each, count in counts.items()}


def smallest(first: Mapping[TopicPartition, int], second: Mapping[TopicPartition, int]) -> Counts:
    """What both limits allow."""
    return {each: min(count, second[each]) for each, count in first.items()}


class Delay:
    """minOffsetsPerTrigger with maxTriggerDelay. The first batch of a run is not delayed."""

    def __init__(self, least: int, max_delay_ms: float) -> None:
        self._least = least
        self._max_delay_ms = max_delay_ms
        self._last_ms: float | None = None

    def holds_back(self, waiting: int, now_ms: float) -> bool:
        """Whether the batch is to wait for more."""
        is_due = self._last_ms is None or now_ms - self._last_ms >= self._max_delay_ms
        if waiting < self._least and not is_due:
            return True
        self._last_ms = now_ms
        return False


class Pace:
    """maxTimePerTrigger: a batch is made as large as the time allows, by how long the batches before it took.

    A batch is seen from its plan to the next question, because Spark passes a source nothing else. With a trigger
    interval that includes the wait for the next trigger; batches that take equally long whatever they read show it,
    and then only longer ones count as too long: the limit is the interval, if that is longer than the limit. A question
    at a round time of the clock, where Spark's triggers are, shows it at once.
    """

    def __init__(self, limit_ms: float) -> None:
        self._limit_ms = limit_ms
        self._allowed = FIRST_SHARE
        self._seen: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)
        self._planned: tuple[int, float] | None = None
        self._wait_ms = 0.0

    @property
    def allowed(self) -> int:
        """So many offsets the next batch may have."""
        return self._allowed

    def planned(self, offsets: int, now_ms: float) -> None:
        """A batch of so many offsets begins."""
        self._planned = (offsets, now_ms)

    def asked(self, now_ms: float, wall_ms: float | None = None) -> None:
        """Spark asks for the next batch: the one before is done. `wall_ms` is what a clock on the wall shows."""
        if self._planned is None:
            return
        offsets, began_ms = self._planned
        self._planned = None
        took_ms = max(1.0, now_ms - began_ms)
        if offsets > 0 and took_ms > self._limit_ms and wall_ms is not None and wall_ms % ROUND_MS < ROUND_WITHIN_MS:
            self._allowed = NO_LIMIT  # the trigger waited, nobody knows for how long; the next batch may have all
        elif offsets > 0:
            self._learn(offsets, took_ms)

    def _learn(self, offsets: int, took_ms: float) -> None:
        self._seen.append((offsets, took_ms))
        # A batch that took less than the wait shows that there is no such wait (any more).
        known_ms = self._wait_ms if took_ms >= self._wait_ms * (1 - ALIKE) else 0.0
        self._wait_ms = max(known_ms, self._common_ms())
        limit_ms = max(self._limit_ms, self._wait_ms)
        is_waiting = self._wait_ms > self._limit_ms and took_ms <= limit_ms * (1 + ALIKE)
        factor = 2.0 if is_waiting else min(GROWTH_MAX, limit_ms / took_ms)
        # A batch that was smaller than it could have been says nothing against a larger one.
        grown = int(offsets * factor)
        self._allowed = max(1, grown if factor < 1 else max(grown, self._allowed))

    def _common_ms(self) -> float:
        """The time that the last batches all took, though they were of different sizes; 0 when there is none."""
        sizes, times = [each[0] for each in self._seen], [each[1] for each in self._seen]
        if len(times) < REMEMBERED or max(sizes) < 2 * min(sizes):
            return 0.0
        return max(times) if max(times) <= min(times) * (1 + ALIKE) else 0.0
