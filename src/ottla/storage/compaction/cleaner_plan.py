"""What the cleaner decides before it touches a record: which log, from where to where, which segments together.

    clean              dirty, cleanable                 dirty, not cleanable
    |------------------|--------------------------------|-----------------------------|
    log start          first dirty offset               first uncleanable offset      log end

1. The first dirty offset is where the last pass ended. One that lies before the log's start (records were deleted) or
   behind its end (the log was cut) says nothing any more: cleaning starts again at the log's start.
2. Never cleaned: the active segment, a segment that reaches to the last stable offset (so neither undecided
   transactions nor what lies above the high watermark), a segment whose latest record is younger than
   min.compaction.lag.ms, and a segment that is not flushed: the record that makes another one superfluous must be on
   the disk before that one goes.
3. A log is cleaned when more than min.cleanable.dirty.ratio of it is dirty, or when a dirty segment began longer than
   max.compaction.lag.ms ago. Of several the dirtiest is next.
4. Segments are put together as long as their records and indexes fit in one segment, and their offsets in 31 bits.
5. Everything here is a function of the log as it is; nothing is read but indexes and the first header of a segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.storage.index.sparse_index import INT32_MAX
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.segment import Segment
from ottla.values import TopicPartition

NO_LIMIT: Final = float("inf")


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The broker's settings for the cleaner: log.cleaner.dedupe.buffer.size, .io.buffer.size, .io.buffer.load.factor,
    .io.max.bytes.per.second and .backoff.ms."""

    dedupe_buffer_bytes: int = 128 << 20
    io_buffer_bytes: int = 512 << 10
    load_factor: float = 0.9
    io_max_bytes_per_second: float = NO_LIMIT
    backoff_ms: int = 15_000


class DirtyRange(NamedTuple):
    """What of a log may be cleaned; `is_reset` says that the checkpoint made no sense and must be written again."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    is_reset: bool


class LogToClean(NamedTuple):
    """A log, the part of it that may be cleaned, and how urgent that is. Bounds are those of segments at their end."""

    topic_partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0


def dirty_range(log: PartitionLog, checkpoint: int | None, now_ms: int) -> DirtyRange:
    """From where on the log is dirty, and up to where it may be cleaned."""
    start_offset = log.log_start_offset
    first_dirty = start_offset if checkpoint is None else checkpoint
    is_reset = not start_offset <= first_dirty <= log.log_end_offset
    if is_reset:
        first_dirty = start_offset
    bounds = [log.last_stable_offset, log.active.base_offset, log.flushed_offset]
    if log.settings.min_compaction_lag_ms > 0:
        bounds += _first_too_young(log, first_dirty, now_ms - log.settings.min_compaction_lag_ms)
    return DirtyRange(first_dirty, max(first_dirty, min(bounds)), is_reset)


def _first_too_young(log: PartitionLog, first_dirty_offset: int, latest_ms: int) -> list[int]:
    for segment in _inactive_from(log, first_dirty_offset):
        if log.segments.sound(segment, lambda each: each.largest_timestamp_ms()) > latest_ms:
            return [segment.base_offset]
    return []


def _inactive_from(log: PartitionLog, offset: int) -> list[Segment]:
    active = log.active.base_offset
    return log.segments.values(offset, active) if offset <= active else []


def log_to_clean(log: PartitionLog, found: DirtyRange, now_ms: int) -> LogToClean:
    """How dirty a log is. A segment is cleaned as a whole, so a segment that an end lies in counts as a whole."""
    first_dirty = found.first_dirty_offset
    uncleanable = next(iter(_inactive_from(log, found.first_uncleanable_offset)), log.active).base_offset
    clean = [segment.size_bytes for segment in log.segments if segment.base_offset < first_dirty]
    cleanable = log.segments.values(min(first_dirty, uncleanable), uncleanable)
    return LogToClean(
        log.topic_partition,
        first_dirty,
        uncleanable,
        sum(clean),
        sum(segment.size_bytes for segment in cleanable),
        _is_overdue(log, first_dirty, now_ms),
    )


def _is_overdue(log: PartitionLog, first_dirty_offset: int, now_ms: int) -> bool:
    began = [segment.first_timestamp_ms for segment in _inactive_from(log, first_dirty_offset)]
    known = [timestamp_ms for timestamp_ms in began if timestamp_ms > 0]
    return bool(known) and min(known) < now_ms - log.settings.max_compaction_lag_ms


def next_log(candidates: Iterable[tuple[LogToClean, float]]) -> LogToClean | None:
    """The dirtiest of the logs that should be cleaned; each comes with its min.cleanable.dirty.ratio."""
    chosen = [
        each
        for each, min_ratio in candidates
        if each.cleanable_bytes > 0 and (each.is_overdue or each.dirty_ratio > min_ratio)
    ]
    return max(chosen, key=lambda each: each.dirty_ratio, default=None)


# --- groups ----------------------------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A segment with the sizes of its indexes."""

    segment: Segment
    base_offset: int
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


def measured(log: PartitionLog, segment: Segment) -> Measured:
    """The sizes of a segment; its indexes are read for it."""
    indexes = segment.indexes
    sizes = log.segments.sound(segment, lambda _: (indexes.offsets.size_bytes, indexes.times.size_bytes))
    return Measured(segment, segment.base_offset, segment.size_bytes, *sizes)


def group_segments(
    segments: Sequence[Measured], *, segment_bytes: int, index_bytes: int, end_offset: int
) -> list[list[Measured]]:
    """Neighbours that fit into one segment each; `end_offset` is where the last of them ends at most."""
    ends = [each.base_offset for each in segments[1:]] + [end_offset]
    groups: list[list[Measured]] = []
    for each, end in zip(segments, ends, strict=False):
        if groups and _fits(groups[-1], each, end, segment_bytes, index_bytes):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _fits(group: list[Measured], more: Measured, end_offset: int, segment_bytes: int, index_bytes: int) -> bool:
    together = [*group, more]
    return (
        sum(each.size_bytes for each in together) <= segment_bytes
        and sum(each.offset_index_bytes for each in together) <= index_bytes
        and sum(each.time_index_bytes for each in together) <= index_bytes
        # An empty segment has no offsets that could be too far away.
        and (more.size_bytes == 0 or end_offset - 1 - group[0].base_offset <= INT32_MAX)
    )
