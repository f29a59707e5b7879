"""How a log gets shorter: at its end (truncation), at its start (DeleteRecords, retention), or altogether.

1. Segments that go are set aside under `.deleted` and given back as `Removed`; whoever has them removes them after
   file.delete.delay.ms, so that answers under way can still be read, and never while a flush of this log is running.
2. A truncation goes from the end backwards and is on the disk when it returns: else a crash could bring back old
   batches behind new ones that took their place.
3. Setting aside at the start goes forwards. So after a crash the segments that are left are always without a hole.
4. The log start only moves forward, and not beyond the high watermark; segments wholly below it may be deleted.
5. Producers forget what was cut at the end, and stay when records go at the start: they still write.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ottla.errors import OffsetOutOfRange
from ottla.storage.files import Files
from ottla.storage.log.log_state import LogState, logger
from ottla.storage.log.roll import roll
from ottla.storage.producers import snapshot as producer_snapshot
from ottla.storage.producers.replay import replay, run
from ottla.storage.segment.names import DELETED_SUFFIX
from ottla.storage.segment.segment import Segment


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


def set_aside(log: LogState, segments: Iterable[Segment]) -> Removed:
    """Take segments out of the log, in the order they come."""
    gone: list[Segment] = []
    snapshots: list[Path] = []
    for segment in segments:
        log.segments.remove(segment.base_offset)
        segment.rename(DELETED_SUFFIX)
        snapshot = producer_snapshot.mark_snapshot_deleted(log.files, log.directory, segment.base_offset)
        gone.append(segment)
        snapshots += [snapshot] if snapshot is not None else []
    log.partition_directory.forget_segments(gone)
    log.segments.forget_positions()
    log.partition_directory.note_names()
    return Removed(tuple(gone), tuple(snapshots))


# --- the end ---------------------------------------------------------------------------------------------------------


def end_after_cut(log: LogState, offset: int) -> int:
    """Where a log ends that is cut at `offset`: a batch that holds it goes as a whole, because a hole between two
    batches is damage to the next start."""
    segment = log.segments.floor(offset) if offset < log.log_end_offset else None
    found = None if segment is None else segment.translate(offset)
    return offset if found is None else min(offset, found.base_offset)


def truncate_to(log: LogState, offset: int, now_ms: int) -> Removed:
    """Let the log end at `offset`, or at the start of the batch that holds it."""
    offset = end_after_cut(log, offset)
    first = log.segments.first
    if offset >= log.log_end_offset:
        # A leader that wrote nothing may have left its epoch at the end, and the next leader's would contradict it.
        log.epoch_history.change(lambda epochs: epochs.truncate_from_end(log.log_end_offset))
        return Removed()
    if first is None or first.base_offset > offset:
        return truncate_fully(log, offset, now_ms)
    log.truncations += 1
    removed = set_aside(log, reversed(log.segments.above(offset)))
    active = log.active
    log.segments.sound(active, lambda segment: segment.truncate_to(offset, now_ms))
    active.records.file.sync(metadata=True)
    log.files.sync_directory(log.directory)
    log.partition_directory.forget_segments([active])
    log.log_start_offset = min(log.log_start_offset, offset)
    _end_at(log, offset)
    log.epoch_history.change(lambda epochs: epochs.truncate_from_end(offset))
    _go_back(log, now_ms)
    return removed


def truncate_fully(log: LogState, offset: int, now_ms: int) -> Removed:
    """Forget all records; the log starts and ends at `offset`."""
    log.truncations += 1
    removed = set_aside(log, reversed(list(log.segments)))
    log.segments.add(log.new_segment(offset, now_ms))
    log.epoch_history.change(lambda epochs: epochs.clear())
    producer_snapshot.truncate_fully(log.producers, log.files, log.directory, offset)
    log.files.sync_directory(log.directory)
    log.log_start_offset = log.high_watermark = offset
    _end_at(log, offset)
    return removed


def _end_at(log: LogState, offset: int) -> None:
    log.log_end_offset = offset
    log.flushed_offset = min(log.flushed_offset, offset)
    log.recovery_point = min(log.recovery_point, log.safe_recovery_point(offset))
    log.update_high_watermark(log.high_watermark)
    log.segments.forget_positions()


def _go_back(log: LogState, now_ms: int) -> None:
    """Let the producers be as they were at the end of the log."""
    had_producers = bool(log.producers.entries)
    producer_snapshot.truncate_and_reload(
        log.producers,
        log.files,
        log.directory,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        now_ms=now_ms,
    )
    # Whoever was not there at the end was not there before it either, or has been silent long enough to be forgotten.
    if had_producers:
        run(replay(log.producers, log.segments, log.log_end_offset))
    log.producers.move_end(log.log_end_offset)
    log.producers.move_high_watermark(log.high_watermark)


# --- the start -------------------------------------------------------------------------------------------------------


def advance_log_start(log: LogState, offset: int) -> bool:
    """Let the log start at `offset`, if that is further on; says whether it was."""
    if offset > log.high_watermark:
        raise OffsetOutOfRange(
            f"{log.topic_partition} cannot start at {offset}, beyond its high watermark {log.high_watermark}"
        )
    if offset <= log.log_start_offset:
        return False
    log.epoch_history.forget_before(offset)
    log.log_start_offset = offset
    snapshots = producer_snapshot.list_snapshots(log.files, log.directory)
    log.producers.move_log_start(offset, snapshots[-1] if snapshots else None)
    return True


def segments_below_log_start(log: LogState) -> list[Segment]:
    """The segments that hold nothing from the log start on; never the active one."""
    segments = list(log.segments)
    return [segment for segment, following in pairwise(segments) if following.base_offset <= log.log_start_offset]


def delete_segments(log: LogState, segments: Iterable[Segment], reason: str, now_ms: int) -> Removed:
    """Delete the oldest segments, which these must be; if they are all, a new one is begun first."""
    chosen = sorted(segments, key=lambda segment: segment.base_offset)
    if chosen != list(log.segments)[: len(chosen)]:
        raise ValueError(f"only the oldest segments of {log.topic_partition} can be deleted, not {_names(chosen)}")
    if len(chosen) == len(log.segments) and roll(log, now_ms) is chosen[-1]:
        chosen.pop()  # an empty segment is where the log goes on
    if not chosen:
        return Removed()
    following = log.segments.higher(chosen[-1].base_offset)
    assert following is not None, "the active segment is never deleted"
    advance_log_start(log, following.base_offset)
    logger.info("deleting segments %s of %s: %s", _names(chosen), log.topic_partition, reason)
    return set_aside(log, chosen)


def _names(segments: Iterable[Segment]) -> list[int]:
    return [segment.base_offset for segment in segments]
