"""The two sparse indexes of a segment, fed together, batch by batch, in the same way by append and by recovery.

1. A batch gets an entry once more than index.interval.bytes came before it since the last entry: (last offset,
   position) in the offset index, (latest timestamp so far, last offset of its batch) in the time index.
2. `note` touches memory only; `make_ready` before it does all that can fail.
3. `complete` adds the latest timestamp, whatever the interval, and cuts the files to their entries: when the segment
   rolls, when it closes, and after recovery. So the last entry of a time index is the segment's latest timestamp.
4. When an index is full in the middle of an append, the batch goes without an entry: a longer walk, no wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from ottla.storage.files import Files
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.sparse_index import WRITE_BEHIND_ENTRIES
from ottla.storage.index.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from ottla.storage.segment.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path


class AppendedBatch(Protocol):
    """What a segment must know of a batch it appends; a BatchInfo read after offsets were assigned will do."""

    @property
    def last_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...


class SegmentIndexes:
    """Offset index, time index, and what decides about their next entry."""

    def __init__(
        self, files: Files, directory: Path, base_offset: int, suffix: str, *, limit_bytes: int, interval_bytes: int
    ) -> None:
        offsets_path = segment_path(directory, base_offset, OFFSET_INDEX_SUFFIX + suffix)
        times_path = segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix)
        self.offsets = OffsetIndex(files, offsets_path, base_offset, limit_bytes)
        self.times = TimeIndex(files, times_path, base_offset, limit_bytes)
        self._interval_bytes = interval_bytes
        self._bytes_since_entry = 0
        self._max_timestamp: TimestampOffset | None = None
        self._is_complete = True
        self.is_ready = False  # nothing in `note` can fail
        self._entered = 0
        self._entered_latest: TimestampOffset | None = None  # the time index ends with this very value

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The latest timestamp and the last offset of its batch; (-1, base offset) if no record has one."""
        if self._max_timestamp is None:
            self._max_timestamp = self.times.last_entry
        return self._max_timestamp

    @property
    def is_full(self) -> bool:
        return self.offsets.is_full or self.times.is_full

    def make_ready(self) -> None:
        """All that could fail in `note`."""
        if not self.is_ready:
            self.offsets.make_ready()
            self.times.make_ready()
            self._max_timestamp = self.max_timestamp
            self._is_complete, self.is_ready = False, True

    def note(self, batches: Iterable[AppendedBatch], position: int) -> int:
        """Take note of batches that stand one after the other, and give those an entry that are far enough from the
        last one; returns the position after them."""
        latest, since_bytes, interval_bytes = self.max_timestamp, self._bytes_since_entry, self._interval_bytes
        latest_ms, enter = latest[0], self.offsets.append_unless_full
        is_full: bool | None = None  # the time index, as long as it gets nothing; asked once for many batches
        for batch in batches:
            if batch.max_timestamp_ms > latest_ms:
                latest_ms = batch.max_timestamp_ms
                latest = TimestampOffset(latest_ms, batch.last_offset)
            if since_bytes > interval_bytes:
                since_bytes = 0
                if is_full is None:
                    is_full = self.times.is_full
                if not is_full and enter(batch.last_offset, position):
                    self._entered += 1
                    if latest is not self._entered_latest:
                        self.times.maybe_append(latest[0], latest[1])
                        self._entered_latest, is_full = latest, None
                    if self._entered % WRITE_BEHIND_ENTRIES == 0:
                        self.is_ready = False  # there are entries enough to be written now
            size_bytes = batch.size_bytes
            since_bytes += size_bytes
            position += size_bytes
        self._max_timestamp, self._bytes_since_entry = latest, since_bytes
        return position

    def complete(self) -> None:
        """Add the latest timestamp and cut the files to their entries; nothing to do if nothing was noted."""
        if self._is_complete:
            return
        self.times.maybe_append(*self.max_timestamp, at_roll=True)
        self.offsets.trim()
        self.times.trim()
        self._bytes_since_entry = 0
        self._is_complete, self.is_ready = True, False

    def forget(self) -> None:
        """Empty both, whatever state their files are in, to be built again."""
        self.offsets.reset()
        self.times.reset()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.offsets.base_offset)
        self._bytes_since_entry = 0
        self._is_complete, self.is_ready = False, False

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at `offset` or later. The latest timestamp must be set again with `found_latest`."""
        self.offsets.truncate_to(offset)
        self.times.truncate_to(offset)
        self._max_timestamp = None
        self._bytes_since_entry = 0
        self._is_complete, self.is_ready = False, False

    def drop_from(self, offset: int) -> bool:
        """Forget entries at `offset` or later, where nothing is written yet: they rotted. Whether there were any."""
        ends = [index.last_entry.offset for index in (self.offsets, self.times) if len(index)]
        has_some = max(ends, default=-1) >= offset
        if has_some:
            self.truncate_to(offset)
        return has_some

    def found_latest(self, latest: TimestampOffset) -> None:
        """The latest timestamp, by a walk over what the time index does not cover."""
        self._max_timestamp = latest

    def sanity_check(self) -> None:
        """CorruptIndex if one of them cannot be trusted."""
        self.offsets.sanity_check()
        self.times.sanity_check()

    # --- the files ----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        self.offsets.create()
        self.times.create()
        self._is_complete = False

    def write_pending(self) -> None:
        self.offsets.write_pending()
        self.times.write_pending()

    def pending_syncs(self) -> list[Callable[[], None]]:
        """What a flush has to call after `write_pending`; any thread may."""
        return self.offsets.pending_syncs() + self.times.pending_syncs()

    def unload(self) -> None:
        """Give their memory back."""
        self.offsets.unload()
        self.times.unload()
        self.is_ready = False

    def rename(self, directory: Path, suffix: str) -> None:
        base_offset = self.offsets.base_offset
        self.offsets.rename(segment_path(directory, base_offset, OFFSET_INDEX_SUFFIX + suffix))
        self.times.rename(segment_path(directory, base_offset, TIME_INDEX_SUFFIX + suffix))

    def moved(self, directory: Path) -> None:
        """Their directory has another name now."""
        self.offsets.path = directory / self.offsets.path.name
        self.times.path = directory / self.times.path.name

    def close(self) -> None:
        self.complete()
        self.offsets.close()
        self.times.close()

    def abandon(self) -> None:
        self.offsets.abandon()
        self.times.abandon()
        self._max_timestamp, self._is_complete, self.is_ready = None, True, False

    def delete(self) -> None:
        self.offsets.delete()
        self.times.delete()
