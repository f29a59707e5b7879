"""The hot state of one topic: which batch is open in each partition, and whose turn it is. The readable twin.

1. `put` writes a record into the open batch of its partition and gives its future; None when somebody has to decide
   something first: no partition has its turn, no batch is open, no room is left, or the record is too large.
2. A key decides its partition by murmur2. Records without one stick to a partition until enough bytes went there.
3. One lock, the accumulator's: callers write, the sender closes. The native twin needs none, see _append.pyx.
4. The time of a record that has none comes from `now_ms`; None is the machine's clock, which the native twin reads
   without calling Python.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ottla.client.producer.batches.delivery import Delivery, SendFuture
from ottla.client.producer.batches.producer_batch import ProducerBatch
from ottla.client.producer.values import HeaderItems
from ottla.clock import SystemClock
from ottla.records.builder import owned_bytes
from ottla.records.hashing import murmur2

RECORD_OVERHEAD_BYTES = 61 + 36


class TopicState:
    """Which batch of a topic is open in each partition, and whose turn it is for records without a key."""

    def __init__(
        self,
        topic: str,
        *,
        sticky_limit_bytes: int,
        record_limit_bytes: int,
        ignores_keys: bool,
        lock: threading.Lock,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.topic = topic
        self.partition_count = 0
        self.sticky = -1
        self.sticky_bytes = 0
        self._sticky_limit_bytes = max(1, sticky_limit_bytes)
        self.record_limit_bytes = record_limit_bytes
        self._ignores_keys = ignores_keys
        self._open: list[ProducerBatch | None] = []
        self._lock = lock
        self._now_ms = now_ms or SystemClock().now_ms

    def set_partition_count(self, count: int) -> None:
        """The cluster says how many there are; a topic that was made again may have fewer."""
        self._open.extend([None] * (count - len(self._open)))
        self.partition_count = count
        if self.sticky >= count:
            self.sticky = -1

    def stick_to(self, partition: int) -> None:
        """Records without a key go here until the turn is over."""
        self.sticky = partition
        self.sticky_bytes = 0

    def set_open(self, partition: int, batch: ProducerBatch | None) -> None:
        """The batch that takes records of this partition; None for none."""
        self._open.extend([None] * (partition + 1 - len(self._open)))
        self._open[partition] = batch

    def open_batch(self, partition: int) -> ProducerBatch | None:
        return self._open[partition] if 0 <= partition < len(self._open) else None

    def partition_of(self, key: bytes | None) -> int:
        """Where a record with this key goes; -1 when no partition has its turn."""
        if key is not None and not self._ignores_keys:
            return (murmur2(_owned(key, "key")) & 0x7FFFFFFF) % self.partition_count
        return self.sticky

    def put(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderItems | None,
        timestamp_ms: int | None,
        partition: int | None,
        wants_future: bool,
    ) -> Any:
        """Write a record into the open batch: its future, or True when none is wanted; None when there is no room."""
        key = None if key is None else _owned(key, "key")
        value = None if value is None else _owned(value, "value")
        time_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        placed = self.place(key, value, headers or (), time_ms, partition)
        if placed is None:
            return None
        if not wants_future:
            return True
        sizes = -1 if key is None else len(key), -1 if value is None else len(value)
        return SendFuture(*placed, time_ms, *sizes)

    def place(
        self, key: bytes | None, value: bytes | None, headers: HeaderItems, time_ms: int, partition: int | None
    ) -> tuple[Delivery, int] | None:
        """Write a record into the open batch: its delivery and its place there; None when there is no room."""
        with self._lock:
            batch = self._write(key, value, headers, time_ms, partition)
            return None if batch is None else (batch.delivery, batch.record_count - 1)

    def _write(
        self, key: bytes | None, value: bytes | None, headers: HeaderItems, time_ms: int, partition: int | None
    ) -> ProducerBatch | None:
        if RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") > self.record_limit_bytes:
            return None
        is_sticky = partition is None and (key is None or self._ignores_keys or self.partition_count <= 0)
        place = (self.sticky if is_sticky else self.partition_of(key)) if partition is None else partition
        batch = self._open[place] if 0 <= place < self.partition_count else None
        written_bytes = 0 if batch is None else batch.take(time_ms, key, value, headers)
        if written_bytes <= 0:
            return None
        if is_sticky:
            self.sticky_bytes += written_bytes
            if self.sticky_bytes >= 2 * self._sticky_limit_bytes:
                # Its batches never fill up, because they leave before: the turn ends all the same.
                self.sticky = -1
        return batch

    def put_many(
        self,
        items: list[Any],
        start: int,
        are_pairs: bool,
        headers: HeaderItems | None,
        timestamp_ms: int | None,
        partition: int | None,
        runs: list[tuple[Delivery, int, int]],
    ) -> int:
        """Write records from `start` on until one finds no room; returns the index of that one, or the length.

        `runs` gets (delivery, first index there, count) for neighbours that lie side by side in one batch.
        """
        time_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        for index in range(start, len(items)):
            key, value = items[index] if are_pairs else (None, items[index])
            key = None if key is None else _owned(key, "key")
            value = None if value is None else _owned(value, "value")
            placed = self.place(key, value, headers or (), time_ms, partition)
            if placed is None:
                return index
            extend_runs(runs, *placed, is_first=index == start)
        return len(items)


def extend_runs(runs: list[tuple[Delivery, int, int]], delivery: Delivery, place: int, *, is_first: bool) -> None:
    """Note where a record came to stand; the first one of a call never joins what an earlier call noted."""
    if runs and not is_first and runs[-1][0] is delivery and sum(runs[-1][1:]) == place:
        runs[-1] = (delivery, runs[-1][1], runs[-1][2] + 1)
    else:
        runs.append((delivery, place, 1))


def check_many(items: list[Any], are_pairs: bool, limit_bytes: int) -> int:
    """Refuse a list with something that cannot be sent, before any of it is; -1, or the index of one too large."""
    for index, item in enumerate(items):
        key, value = item if are_pairs else (None, item)
        size = RECORD_OVERHEAD_BYTES
        size += 0 if key is None else len(_owned(key, "key"))
        size += 0 if value is None else len(_owned(value, "value"))
        if size > limit_bytes:
            return index
    return -1


def has_text(items: list[Any], are_pairs: bool) -> bool:
    """Whether a key or a value is text, which must become bytes first."""
    return any(type(part) is str for item in items for part in (item if are_pairs else (item,)))


def _owned(data: object, what: str) -> bytes:
    return data if type(data) is bytes else owned_bytes(data, what)
