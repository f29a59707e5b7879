"""What a partition's log is: its segments, its producers, its leaders, and the offsets that describe it.

    log start <= last stable <= high watermark <= log end
    recovery point <= flushed <= log end

1. Everything before `flushed_offset` is on the disk. `recovery_point` is what may be written down for the next start:
   a recovery that begins there finds everything. The two differ while the last segment grows, because its indexes are
   not synced with every flush: a recovery point inside it makes recovery build them anew.
2. The state is plain and has one owner: no lock, no thread, no clock. Parts of it have owners of their own: what waits
   for a sync (partition_directory.py), the segments and their indexes (log_segments.py), the leader epochs and their
   file (leader_epochs.py), the producers. What concerns several parts is told by idea: append.py, append_run.py,
   read.py, lookups.py, roll.py, truncate.py, flush.py and compaction/swap.py; partition_log.py puts them together.
3. Settings may be replaced while the log is open; segments to come and the next append go by the new ones.
4. There is always at least one segment; the last one is the active one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ottla.records import Compression, TimestampType, crc32c
from ottla.storage.files import Files
from ottla.storage.index.time_index import TimeIndex
from ottla.storage.log.leader_epochs import EpochHistory, LeaderEpochs
from ottla.storage.log.log_segments import LogSegments
from ottla.storage.log.partition_directory import PartitionDirectory
from ottla.storage.log.validation import AppendRules, plain_terms
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.names import (
    ABORTED_INDEX_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    RECORDS_SUFFIX,
    TIME_INDEX_SUFFIX,
    segment_path,
)
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import LOG_APPEND_TIME, TopicSettings
from ottla.values import TopicPartition

logger = logging.getLogger(__name__)

NO_LIMIT: Final = 2**63 - 1


class SegmentLimits(NamedTuple):
    """The settings that segments go by, as they are meant: see `limits_of`."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int


def limits_of(settings: TopicSettings) -> SegmentLimits:
    """A segment of a compacted topic ends early enough for max.compaction.lag.ms: the active one is never compacted."""
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


_CODECS = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def rules_of(settings: TopicSettings) -> AppendRules:
    """What the settings say about appends."""
    levels = {
        "gzip": settings.compression_gzip_level,
        "lz4": settings.compression_lz4_level,
        "zstd": settings.compression_zstd_level,
    }
    is_append_time = settings.message_timestamp_type == LOG_APPEND_TIME
    return AppendRules(
        compression=_CODECS[settings.compression_type],
        compression_level=levels.get(settings.compression_type),
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        message_bytes_max=settings.max_message_bytes,
        segment_bytes_max=settings.segment_limit_bytes,
        keys_required=settings.is_compacted,
    )


def jitter_ms(settings: TopicSettings, topic_partition: TopicPartition, base_offset: int) -> int:
    """How much sooner this segment ends, so that not all end at once: by chance, but the same chance every time."""
    bound_ms = min(settings.segment_jitter_ms, settings.segment_ms)
    return crc32c(f"{topic_partition}/{base_offset}".encode()) % bound_ms if bound_ms else 0


class LogState:
    """The state of one log. Offsets are changed only by the modules named above."""

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        settings: TopicSettings,
        *,
        files: Files,
        segments: Iterable[Segment],
        producers: ProducerState,
        epochs: LeaderEpochs,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        topic_id: bytes | None,
        now_ms: int,
    ) -> None:
        self.partition_directory = PartitionDirectory(files, directory)
        self.topic_partition = topic_partition
        self.bytes_before_full_index = NO_LIMIT
        self.settings = settings
        self.files = files
        self.segments = LogSegments(segments, self.partition_directory, self._start_and_time)
        self.producers = producers
        self.epoch_history = EpochHistory(epochs, self.partition_directory)
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = self.flushed_offset = recovery_point
        self.last_flush_ms = now_ms
        # A flush that was begun before a truncation says nothing about what was appended after it.
        self.truncations = 0

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.limits = limits_of(settings)
        # The active segment has the settings it was made with: the smallest of all since then is true for it too.
        self.bytes_before_full_index = min(self.bytes_before_full_index, bytes_before_full_index(self.limits))
        self.rules = rules_of(settings)
        self.plain_terms = plain_terms(self.rules)

    def _start_and_time(self) -> tuple[int, int]:
        return self.log_start_offset, self.last_flush_ms

    @property
    def directory(self) -> Path:
        return self.partition_directory.path

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader wrote from which offset; changed by `epoch_history` alone."""
        return self.epoch_history.epochs

    @property
    def active(self) -> Segment:
        """The segment that grows."""
        last = self.segments.last
        if last is None:
            raise ValueError(f"{self.topic_partition} is closed")
        return last

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # --- offsets ------------------------------------------------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """The first record of the oldest transaction that is open, or ended above the high watermark."""
        unstable = self.producers.first_unstable_offset
        return None if unstable is None else max(unstable, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Up to where a reader of committed records may read."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark, within the log; gives where it is then."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            offset = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.high_watermark = offset
        self.producers.move_high_watermark(offset)
        return offset

    def safe_recovery_point(self, offset: int) -> int:
        """From where a recovery must begin when only records, not indexes, are known to be on the disk up to `offset`:
        inside the active segment, unless that has nothing before `offset`."""
        return offset if offset <= self.active.base_offset else offset - 1

    # --- segments -----------------------------------------------------------------------------------------------------

    def new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Make the files of a segment; if that fails, none of them is left."""
        made = create_segment(
            self.files, self.directory, base_offset, self._settings, self.topic_partition, now_ms=now_ms
        )
        self.partition_directory.note_names()
        return made

    def begin_epoch(self, epoch: int) -> None:
        """A leader begins, with the next record; see `EpochHistory.begin`."""
        self.epoch_history.begin(epoch, self.log_end_offset)


def create_segment(
    files: Files,
    directory: Path,
    base_offset: int,
    settings: TopicSettings,
    topic_partition: TopicPartition,
    *,
    now_ms: int,
) -> Segment:
    """A new segment of a log; if it cannot be made no file is left, or the next start would take it for one."""
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
