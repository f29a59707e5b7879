"""How a log gets shorter: at its end (truncation), at its start (DeleteRecords, retention), or altogether.

1. Segments that go are set aside under `.deleted` and returned as `Removed`; the caller removes them after
   file.delete.delay.ms, so that answers under way can still be read, and never while a flush of this log is running.
2. A truncation goes from the end backwards and is on the disk when it returns: else a crash could bring back old
   batches behind new ones that took their place.
3. Setting aside at the start goes forwards. So after a crash the segments that are left are always without a hole.
4. The log start only moves forward, and not beyond the high watermark; segments wholly below it may be deleted.
5. Producers forget what was cut at the end, and stay when records go at the start: they still write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from ottla.errors import OffsetOutOfRange
from ottla.light_tuples import NamedTuple
from ottla.storage.files import Files
from ottla.storage.log.leader_epochs import EpochHistory
from ottla.storage.log.log_end import LogEnd
from ottla.storage.producers import snapshot as producer_snapshot
from ottla.storage.producers.replay import replay, run
from ottla.storage.segment.names import DELETED_SUFFIX
from ottla.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Removed(NamedTuple):
    """Files that are out of the log and wait for their removal."""

    segments: tuple[Segment, ...] = ()
    snapshots: tuple[Path, ...] = ()

    def remove(self, files: Files) -> None:
        """Close and remove them."""
        for segment in self.segments:
            segment.delete()
        for path in self.snapshots:
            files.remove(path, missing_ok=True)


class Truncation:
    """Makes one log shorter."""

    def __init__(self, end: LogEnd, epoch_history: EpochHistory) -> None:
        self._end = end
        self._segments = end.segments
        self._producers = end.producers
        self._directory = end.directory
        self._epoch_history = epoch_history

    def _set_aside(self, segments: Iterable[Segment]) -> Removed:
        """Take segments out of the log, in the order they come."""
        gone: list[Segment] = []
        snapshots: list[Path] = []
        for segment in segments:
            self._end.remove_segment(segment)
            segment.rename(DELETED_SUFFIX)
            snapshot = producer_snapshot.mark_snapshot_deleted(
                self._directory.files, self._directory.path, segment.base_offset
            )
            gone.append(segment)
            snapshots += [snapshot] if snapshot is not None else []
        self._directory.forget_segments(gone)
        self._segments.forget_positions()
        self._directory.note_names()
        return Removed(tuple(gone), tuple(snapshots))

    # --- the end -----------------------------------------------------------------------------------------------------

    def end_after_cut(self, offset: int) -> int:
        """Where a log ends that is cut at `offset`: a batch that holds it goes as a whole, because a hole between two
        batches is damage to the next start."""
        segment = self._segments.floor(offset) if offset < self._end.log_end_offset else None
        found = None if segment is None else self._segments.sound(segment, lambda each: each.translate(offset))
        return offset if found is None else min(offset, found.base_offset)

    def truncate_to(self, offset: int, now_ms: int) -> Removed:
        """Let the log end at `offset`, or at the start of the batch that holds it."""
        offset = self.end_after_cut(offset)
        first = self._segments.first
        if offset >= self._end.log_end_offset:
            # A leader that wrote nothing may have left its epoch at the end, and the next leader's would contradict it.
            self._epoch_history.change(lambda epochs: epochs.truncate_from_end(self._end.log_end_offset))
            return Removed()
        if first is None or first.base_offset > offset:
            return self.truncate_fully(offset, now_ms)
        self._end.begin_truncation()
        removed = self._set_aside(reversed(self._segments.above(offset)))
        active = self._end.open_active()
        self._segments.sound(active, lambda segment: segment.truncate_to(offset, now_ms))
        active.records.file.sync(metadata=True)
        self._directory.files.sync_directory(self._directory.path)
        self._directory.forget_segments([active])
        self._end.end_at(offset)
        self._epoch_history.change(lambda epochs: epochs.truncate_from_end(offset))
        self._go_back(now_ms)
        return removed

    def truncate_fully(self, offset: int, now_ms: int) -> Removed:
        """Forget all records; the log starts and ends at `offset`."""
        self._end.begin_truncation()
        removed = self._set_aside(reversed(list(self._segments)))
        self._end.new_segment(offset, now_ms)
        self._epoch_history.change(lambda epochs: epochs.clear())
        producer_snapshot.truncate_fully(self._producers, self._directory.files, self._directory.path, offset)
        self._directory.files.sync_directory(self._directory.path)
        self._end.restart_at(offset)
        return removed

    def _go_back(self, now_ms: int) -> None:
        """Let the producers be as they were at the end of the log."""
        had_producers = bool(self._producers.entries)
        producer_snapshot.truncate_and_reload(
            self._producers,
            self._directory.files,
            self._directory.path,
            log_start_offset=self._end.log_start_offset,
            log_end_offset=self._end.log_end_offset,
            now_ms=now_ms,
        )
        # A producer that is unknown at the end was unknown before it too, or was silent long enough to be forgotten.
        if had_producers:
            run(replay(self._producers, self._segments, self._end.log_end_offset))
        self._producers.move_end(self._end.log_end_offset)
        self._producers.move_high_watermark(self._end.high_watermark)

    # --- the start ---------------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> bool:
        """Let the log start at `offset`, if that is further on; says whether it was."""
        if offset > self._end.high_watermark:
            name, high_watermark = self._end.topic_partition, self._end.high_watermark
            raise OffsetOutOfRange(f"{name} cannot start at {offset}, beyond its high watermark {high_watermark}")
        if offset <= self._end.log_start_offset:
            return False
        self._epoch_history.forget_before(offset)
        self._end.start_at(offset)
        snapshots = producer_snapshot.list_snapshots(self._directory.files, self._directory.path)
        self._producers.move_log_start(offset, snapshots[-1] if snapshots else None)
        return True

    def segments_below_log_start(self) -> list[Segment]:
        """The segments that hold nothing from the log start on; never the active one."""
        start_offset = self._end.log_start_offset
        return [each for each, following in pairwise(self._segments) if following.base_offset <= start_offset]

    def delete_segments(self, segments: Iterable[Segment], reason: str, now_ms: int) -> Removed:
        """Delete the oldest segments, which these must be; if they are all, a new one is begun first."""
        chosen = sorted(segments, key=lambda segment: segment.base_offset)
        if chosen != list(self._segments)[: len(chosen)]:
            name = self._end.topic_partition
            raise ValueError(f"only the oldest segments of {name} can be deleted, not {_names(chosen)}")
        if len(chosen) == len(self._segments) and self._end.roll(now_ms) is chosen[-1]:
            chosen.pop()  # an empty segment is where the log goes on
        if not chosen:
            return Removed()
        following = self._segments.higher(chosen[-1].base_offset)
        assert following is not None, "the active segment is never deleted"
        self.advance_log_start(following.base_offset)
        logger.info("deleting segments %s of %s: %s", _names(chosen), self._end.topic_partition, reason)
        return self._set_aside(chosen)


def _names(segments: Iterable[Segment]) -> list[int]:
    return [segment.base_offset for segment in segments]
