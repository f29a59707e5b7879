"""Which task reads what: ranges of offsets are split where they are large and packed together where they are small.

1. Every offset of the input is in exactly one task, once. The ranges of a task are in order of topic, partition and
   offset, and a range is read from its start to its end.
2. The plan is a function of its arguments: the same ranges and the same numbers give the same tasks.
3. How many tasks: a task costs about 30 ms, the time in which it could read tens of thousands of small records. So
   ranges are packed until a task has SMALL_TASK offsets; but as long as there are TINY_TASK offsets for each, there
   are as many tasks as the offset says (one for each core), because the query may work long on each row. A partition
   is split only when minPartitions or maxRecordsPerPartition ask for it.
4. Offsets are counted, not records: in compacted topics and with transactions a range has fewer records than offsets.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark.sql.datasource import InputPartition

from ottla.light_tuples import NamedTuple
from ottla.spark.source.offsets import Packing, StreamOffset
from ottla.values import TopicPartition

SMALL_TASK: Final = 10_000
TINY_TASK: Final = 500
TASK_LIMIT: Final = 100_000
"""More tasks than this Spark's driver could not keep; maxRecordsPerPartition then gives larger ones."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets of one partition from `start` up to but not including `end`. With a topic id it is that topic's and not
    one made again under the same name."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    def part(self, start: int, end: int) -> OffsetRange:
        return OffsetRange(self.topic, self.partition, start, end, self.topic_id)


class Share(NamedTuple):
    """The partitions that one of so many tasks reads; neighbours of a topic go to different tasks."""

    task: int = 0
    tasks: int = 1

    def has(self, partition: TopicPartition) -> bool:
        return (zlib.crc32(partition.topic.encode()) + partition.partition) % self.tasks == self.task


EVERYTHING: Final = Share()


@dataclass(frozen=True)
class ReadTask(InputPartition):
    """What one task reads, in this order. It is pickled and sent to the task."""

    ranges: tuple[OffsetRange, ...]
    login: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """How the task logs in where tokens are handed out; it changes from batch to batch (tokens/handout.py)."""
    share: Share = EVERYTHING
    """Which partitions it reads when the plan has grown old (snapshot.py)."""

    @property
    def size(self) -> int:
        return sum(each.size for each in self.ranges)


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
    """What the batch from `start` to `end` reads."""
    if start == end:
        # A batch without news, which Spark runs for the sake of windows and timers. The beginnings in this offset are
        # those of the batch that ended here: read again they would be doubled.
        return []
    found = []
    for partition, until in sorted(end.positions.items()):
        begin = end.begins.get(partition, start.positions.get(partition, until))
        if begin < until:
            topic_id = end.topic_ids.get(partition.topic)
            found.append(OffsetRange(partition.topic, partition.partition, begin, until, topic_id))
    return found


def with_logins(tasks: Iterable[ReadTask], login: Mapping[str, str]) -> list[ReadTask]:
    """The same tasks, with a login for each."""
    return [replace(each, login=login) for each in tasks]


def plan(ranges: Iterable[OffsetRange], packing: Packing) -> list[ReadTask]:
    """The tasks that read these ranges."""
    pieces = [each for each in ranges if each.size > 0]
    if packing.max_records is not None:
        pieces = _no_larger_than(pieces, packing.max_records)
    least = packing.min_partitions or 1
    if len(pieces) < least:
        pieces = _at_least(pieces, least)
    total = sum(each.size for each in pieces)
    wanted = max(least, min(packing.tasks, -(-total // TINY_TASK)), -(-total // SMALL_TASK))
    return [ReadTask(tuple(sorted(each))) for each in _packed(pieces, wanted, packing.max_records)]


def _no_larger_than(ranges: Sequence[OffsetRange], limit: int) -> list[OffsetRange]:
    total = sum(each.size for each in ranges)
    limit = max(limit, -(-total // TASK_LIMIT))
    return [piece for each in ranges for piece in _parts(each, -(-each.size // limit))]


def _at_least(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """About `count` pieces of nearly the same size: every range gets parts by its share of the whole."""
    total = sum(each.size for each in ranges)
    shares = _shares({each: each.size for each in ranges}, count, total)
    return [piece for each in ranges for piece in _parts(each, shares[each])]


def _shares(sizes: Mapping[OffsetRange, int], count: int, total: int) -> dict[OffsetRange, int]:
    """Parts for each, one at least and no more than it has offsets; the next part goes where parts are largest."""
    shares = {each: max(1, min(size, count * size // total)) for each, size in sizes.items()}
    heap = [(-size / shares[each], each) for each, size in sizes.items()]
    heapq.heapify(heap)
    missing = min(count, total) - sum(shares.values())
    while missing > 0:
        _, each = heapq.heappop(heap)
        if shares[each] < sizes[each]:
            shares[each] += 1
            missing -= 1
            heapq.heappush(heap, (-sizes[each] / shares[each], each))
    return shares


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """A range in `count` parts whose sizes differ by one at most."""
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole.part(start, end) for start, end in itertools.pairwise(edges) if start < end]


def _packed(pieces: Sequence[OffsetRange], count: int, limit: int | None) -> list[list[OffsetRange]]:
    """The largest first, each to the task that has least; a task that would pass the limit gets no more."""
    tasks: list[list[OffsetRange]] = []
    heap: list[tuple[int, int]] = []
    for piece in sorted(pieces, key=lambda each: (-each.size, each)):
        has_room = bool(heap) and (limit is None or heap[0][0] + piece.size <= limit)
        if len(tasks) < count or not has_room:
            heapq.heappush(heap, (piece.size, len(tasks)))
            tasks.append([piece])
        else:
            size, index = heap[0]
            heapq.heapreplace(heap, (size + piece.size, index))
            tasks[index].append(piece)
    return tasks
