"""What a fetch gets: a piece of one file, and what its reader must know to use it.

1. Nothing at or behind the limit is given: the end of the log for followers, the high watermark for consumers, the
   last stable offset for those that read committed records. The limit falls between batches.
2. Below the start or beyond the end of the log is OffsetOutOfRange; between the limit and the end there is nothing yet.
3. A piece never crosses segments. Where a segment has nothing from the offset on (compaction may have taken it), the
   next one is asked.
4. A reader of committed records also gets the aborted transactions that reach into what it gets.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from ottla.errors import OffsetOutOfRange
from ottla.storage.index.aborted_index import AbortedTransaction
from ottla.storage.log.log_state import LogState
from ottla.storage.segment.records_file import FileSlice
from ottla.storage.segment.segment import Segment

UpTo: TypeAlias = Literal["log_end", "high_watermark", "last_stable"]


class ReadResult(NamedTuple):
    """A piece of the log. `aborted` is None unless only committed records were asked for."""

    slice: FileSlice
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None = None


def read(
    log: LogState,
    offset: int,
    max_bytes: int,
    *,
    up_to: UpTo = "high_watermark",
    at_least_one_batch: bool = True,
) -> ReadResult:
    """The batches from the one that holds `offset` on, `max_bytes` at most; the last one may be cut off."""
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(
            f"{log.topic_partition} has offsets {log.log_start_offset} to {log.log_end_offset}, not {offset}"
        )
    last_stable_offset = log.last_stable_offset
    limit = {"log_end": log.log_end_offset, "high_watermark": log.high_watermark}.get(up_to, last_stable_offset)
    aborted: list[AbortedTransaction] | None = [] if up_to == "last_stable" else None
    found = _find(log, offset, max_bytes, limit, at_least_one_batch=at_least_one_batch) if offset < limit else None
    if found is None:
        active = log.active
        piece = FileSlice(active.records.file, active.size_bytes, 0)
    else:
        segment, piece = found
        if aborted is not None and len(piece):
            aborted = aborted_transactions(log, offset, _upper_bound(log, segment, piece))
    return ReadResult(piece, log.high_watermark, last_stable_offset, log.log_start_offset, aborted)


def _find(
    log: LogState, offset: int, max_bytes: int, limit: int, *, at_least_one_batch: bool
) -> tuple[Segment, FileSlice] | None:
    segment = log.segments.floor(offset) or log.segments.first
    while segment is not None and segment.base_offset < limit:
        max_position = _max_position(log, segment, limit)
        ask = partial(
            Segment.read,
            start_offset=offset,
            max_bytes=max_bytes,
            max_position=max_position,
            at_least_one_batch=at_least_one_batch,
        )
        piece = log.segments.sound(segment, ask)
        if piece is not None:
            return segment, piece
        segment = log.segments.higher(segment.base_offset)
    return None


def _max_position(log: LogState, segment: Segment, limit: int) -> int:
    """Where in this segment a reader must stop."""
    if limit == log.log_end_offset:
        return segment.size_bytes
    last, position = log.segments.position_of(limit)
    return position if segment is last else segment.size_bytes


def _upper_bound(log: LogState, segment: Segment, piece: FileSlice) -> int:
    """An offset that nothing in the piece goes beyond."""
    bound = log.segments.sound(segment, lambda each: each.upper_bound_offset(piece.position + piece.size_bytes))
    if bound is not None:
        return bound
    following = log.segments.higher(segment.base_offset)
    return log.log_end_offset if following is None else following.base_offset


def aborted_transactions(log: LogState, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions that reach into [start_offset, end_offset)."""
    found: list[AbortedTransaction] = []
    for segment in log.segments.values(start_offset):
        search = log.segments.sound(segment, lambda each: each.aborted_index.collect(start_offset, end_offset))
        found += search.transactions
        if search.is_complete:
            break
    return found
