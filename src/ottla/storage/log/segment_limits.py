"""How the segments of a log are made: the limits they go by, and their files.

1. A segment of a compacted topic ends early enough for max.compaction.lag.ms: the active one is never compacted.
2. A segment that cannot be made leaves no file behind: the next start would take it for one.
"""

from __future__ import annotations

from pathlib import Path

from ottla.light_tuples import NamedTuple
from ottla.records import crc32c
from ottla.storage.files import Files
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.segment.names import (
    ABORTED_INDEX_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    RECORDS_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_path,
)
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition


class SegmentLimits(NamedTuple):
    """The settings that segments go by, as they are meant: see `limits_of`."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int


def limits_of(settings: TopicSettings) -> SegmentLimits:
    """What the settings say about segments."""
    segment_ms = settings.segment_ms
    if settings.is_compacted:
        segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
    return SegmentLimits(
        settings.segment_limit_bytes, segment_ms, settings.segment_index_bytes, settings.index_interval_bytes
    )


def bytes_before_full_index(limits: SegmentLimits) -> int:
    """A segment up to this size cannot have a full index: every entry stands for more than the interval."""
    entries = limits.segment_index_bytes // TimeIndex.entry_bytes - TimeIndex.reserved_entries
    return max(0, entries) * limits.index_interval_bytes


def jitter_ms(settings: TopicSettings, topic_partition: TopicPartition, base_offset: int) -> int:
    """How much sooner this segment ends, so that not all end at once: by chance, but the same chance every time."""
    bound_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    return crc32c(f"{topic_partition}/{base_offset}".encode()) % bound_ms if bound_ms else 0


def create_segment(
    files: Files,
    directory: Path,
    base_offset: int,
    settings: TopicSettings,
    topic_partition: TopicPartition,
    *,
    now_ms: int,
) -> Segment:
    """A new segment of a log, or no file of it."""
    try:
        made = Segment.create(
            files,
            directory,
            base_offset,
            limits_of(settings),
            now_ms=now_ms,
            jitter_ms=jitter_ms(settings, topic_partition, base_offset),
        )
        if settings.preallocate:
            made.records.file.truncate(settings.segment_limit_bytes)
    except Exception:
        remove_segment_files(files, directory, base_offset)
        raise
    return made


def remove_segment_files(files: Files, directory: Path, base_offset: int) -> None:
    """Remove what there is of a segment."""
    for suffix in (ABORTED_INDEX_SUFFIX, TIME_INDEX_SUFFIX, OFFSET_INDEX_SUFFIX, RECORDS_SUFFIX):
        files.remove(segment_path(directory, base_offset, suffix), missing_ok=True)
