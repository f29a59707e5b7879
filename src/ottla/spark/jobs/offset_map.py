"""Which offset of the target is which offset of the source: what lets a consumer group move to a mirror.

    source     5 6 7 . . 10 11          (8 and 9 were removed by compaction, or are markers)
    target     20 21 22 23 24  M        one segment: target_start=20, runs=((5, 3), (10, 2))
    translate  5 -> 20, 8 -> 23, 10 -> 23, 12 -> 25

1. Translated is the next record to read: a group that goes on at translate(offset) reads every record that it had not
   read yet at `offset`. If the segment is exact, it reads none twice.
2. A segment that is not exact says only that none of its records lies before target_start; every offset in it becomes
   target_start. Some records are then read twice, none is lost.
3. An offset before everything that was mirrored becomes the first segment's beginning; one behind everything becomes
   the end of the last. Where nothing was mirrored there is no answer.
4. A segment is a record of a compacted topic of the target, in the same transaction as the records it speaks of
   (mirror_rows.py). Key {"cluster", "topic", "partition", "offset"}, value {"version", "target_offset", "exact",
   "runs"}; both are JSON with sorted names. At most RUNS_LIMIT runs; more records, or more gaps, are more segments.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

VERSION: Final = 1
RUNS_LIMIT: Final = 10_000
"""A run is at most 30 bytes of JSON: the largest segment stays well below the 1 MB that a broker takes."""


class UnreadableSegment(OttlaError):
    """A record of the topic of mapped offsets cannot be read. Only mirrors may write into that topic."""


class Run(NamedTuple):
    """Records with offsets one behind the other."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Records that were written into the target one behind the other."""

    target_start: int
    runs: tuple[Run, ...]
    is_exact: bool = True

    @property
    def source_start(self) -> int:
        return self.runs[0].start

    @property
    def count(self) -> int:
        return sum(run.length for run in self.runs)

    def translate(self, offset: int) -> int:
        """The target's offset of the first record at or behind `offset`, or the end of this segment."""
        if not self.is_exact:
            return self.target_start
        return self.target_start + sum(min(max(offset - run.start, 0), run.length) for run in self.runs)


class OffsetMap:
    """The segments of all partitions of one source cluster, in the order of its offsets."""

    def __init__(self) -> None:
        self._segments: dict[TopicPartition, dict[int, Segment]] = {}
        self._starts: dict[TopicPartition, list[int]] = {}

    def add(self, partition: TopicPartition, segment: Segment) -> None:
        """Of two that begin at the same offset the later one counts: it was mirrored once more."""
        segments = self._segments.setdefault(partition, {})
        if segment.source_start not in segments:
            bisect.insort(self._starts.setdefault(partition, []), segment.source_start)
        segments[segment.source_start] = segment

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """Where a reader of the source's `offset` goes on in the target; None where nothing was mirrored."""
        starts = self._starts.get(partition)
        if not starts:
            return None
        index = max(bisect.bisect_right(starts, offset) - 1, 0)
        return self._segments[partition][starts[index]].translate(offset)


class SegmentBuilder:
    """Collects the offsets of records while they pass, for one partition and from one place of the target on."""

    def __init__(self, target_start: int, *, is_exact: bool = True, runs_limit: int = RUNS_LIMIT) -> None:
        self._next_target = target_start
        self._is_exact = is_exact
        self._runs_limit = runs_limit
        self._runs: list[Run] = []

    def add(self, offsets: Sequence[int]) -> list[Segment]:
        """More records; returns the segments that are full."""
        full = []
        for run in runs_of(offsets):
            if self._runs and self._runs[-1].start + self._runs[-1].length == run.start:
                self._runs[-1] = Run(self._runs[-1].start, self._runs[-1].length + run.length)
                continue
            if len(self._runs) == self._runs_limit:
                full += self.end()
            self._runs.append(run)
        return full

    def end(self) -> list[Segment]:
        """What was collected and not returned yet: one segment, or none."""
        if not self._runs:
            return []
        made = Segment(self._next_target, tuple(self._runs), self._is_exact)
        if self._is_exact:
            self._next_target += made.count
        self._runs = []
        return [made]


def runs_of(offsets: Sequence[int]) -> list[Run]:
    """Growing offsets as runs."""
    if not offsets:
        return []
    if offsets[-1] - offsets[0] + 1 == len(offsets):
        return [Run(offsets[0], len(offsets))]
    edges = [index for index in range(1, len(offsets)) if offsets[index] != offsets[index - 1] + 1]
    starts = [0, *edges]
    return [
        Run(offsets[start], end - start) for start, end in zip(starts, [*edges, len(offsets)], strict=True)
    ]  # fmt: skip


# --- as records ------------------------------------------------------------------------------------------------------


def segment_key(cluster_id: str, partition: TopicPartition, segment: Segment) -> bytes:
    return _json(
        {
            "cluster": cluster_id,
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": segment.source_start,
        }
    )


def segment_value(segment: Segment) -> bytes:
    runs = [list(run) for run in segment.runs]
    return _json({"version": VERSION, "target_offset": segment.target_start, "exact": segment.is_exact, "runs": runs})


def read_segment(key: bytes | None, value: bytes | None) -> tuple[str, TopicPartition, Segment]:
    """The source cluster's id, the partition there, and the segment; raises UnreadableSegment."""
    try:
        named, stored = json.loads(key or b""), json.loads(value or b"")
        if stored["version"] != VERSION:
            raise UnreadableSegment(f"it has version {stored['version']!r}, and this is version {VERSION}")
        runs = tuple(Run(int(start), int(length)) for start, length in stored["runs"])
        segment = Segment(int(stored["target_offset"]), runs, bool(stored["exact"]))
        partition = TopicPartition(str(named["topic"]), int(named["partition"]))
        _check(segment.target_start, runs)
        return str(named["cluster"]), partition, segment
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableSegment(f"{type(error).__name__}: {error}") from None


def _check(target_start: int, runs: Iterable[Run]) -> None:
    following = -1
    for run in runs:
        if run.length < 1 or run.start < 0 or run.start <= following:
            raise ValueError("runs must grow and must not touch")
        following = run.start + run.length
    if following < 0 or target_start < 0:
        raise ValueError("there are no runs, or the target offset is below 0")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
