"""Which segments of a log may go: by its start, by its size, by age.

1. A segment goes only if everything in it is below the high watermark, and only the oldest ones go: the row stays
   without a hole. An empty last segment stays; one with records may go, and a new one is begun.
2. Age is measured by the latest timestamp in a segment, or when its file was last written if its records have none. The
   clock is asked only how long ago that was, so a clock that jumps back keeps records longer and never deletes any
   that would not have been deleted before.
3. By size only what is too much goes: a segment that is needed to reach retention.bytes stays.
4. A topic that is only compacted loses only what is below its start. So does one with no cleanup.policy at all.
5. `decide` decides and touches nothing; `clean_up` does it and says what is out, SEGMENTS_PER_STEP at a time. Neither
   needs room on the disk, except to take out the active segment, and neither waits for a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ottla.light_tuples import NamedTuple
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.truncate import Removed
from ottla.storage.segment.segment import Segment

SEGMENTS_PER_STEP: Final = 5


class Expired(NamedTuple):
    """The oldest segments of a log, and why they go."""

    segments: list[Segment]
    reason: str


class CleanUp(NamedTuple):
    """What retention took out of a log; the files are to be removed later."""

    removed: Removed
    reason: str
    size_bytes: int


def decide(log: PartitionLog, now_ms: int) -> Expired | None:
    """The segments that go now, by the first reason that applies; when they have gone, ask again for the next."""
    for reason, oldest in (
        ("they are below the log start", _below_log_start(log)),
        (f"the log is larger than retention.bytes={log.settings.retention_bytes}", _over_size(log)),
        (f"they are older than retention.ms={log.settings.retention_ms}", _over_age(log, now_ms)),
    ):
        if oldest:
            return Expired(oldest, reason)
    return None


def clean_up(log: PartitionLog, now_ms: int) -> Iterator[CleanUp]:
    """Take out what may go, in steps."""
    while (expired := decide(log, now_ms)) is not None:
        # The active one goes alone and last: a new one must be begun for it, and a full disk may have no room for that.
        chosen = [segment for segment in expired.segments if segment is not log.active] or expired.segments
        size_bytes = sum(segment.size_bytes for segment in chosen)
        removed = log.delete_segments(chosen, expired.reason, now_ms)
        if not removed.segments:
            break
        yield CleanUp(removed, expired.reason, size_bytes)


def _below_log_start(log: PartitionLog) -> list[Segment]:
    return _oldest(
        log, lambda segment, following: following is not None and following.base_offset <= log.log_start_offset
    )


def _over_size(log: PartitionLog) -> list[Segment]:
    limit_bytes = log.settings.retention_bytes
    if not log.settings.is_deleted or limit_bytes < 0:
        return []
    surplus_bytes = log.size_bytes - limit_bytes

    def is_surplus(segment: Segment, _: Segment | None) -> bool:
        nonlocal surplus_bytes
        surplus_bytes -= segment.size_bytes
        return surplus_bytes >= 0

    return _oldest(log, is_surplus)


def _over_age(log: PartitionLog, now_ms: int) -> list[Segment]:
    limit_ms = log.settings.retention_ms
    if not log.settings.is_deleted or limit_ms < 0:
        return []

    def is_old(segment: Segment, _: Segment | None) -> bool:
        latest_ms = log.segments.sound(segment, lambda each: each.largest_timestamp_ms())
        if now_ms - latest_ms <= limit_ms:
            return False
        # An entry of the time index that rotted must not cost a segment that is young.
        return now_ms - log.segments.sound(segment, lambda each: each.proved_timestamp_ms()) > limit_ms

    return _oldest(log, is_old)


def _oldest(log: PartitionLog, is_over: Callable[[Segment, Segment | None], bool]) -> list[Segment]:
    """The oldest segments that are committed and over, up to the first that is not."""
    segments = list(log.segments)
    for number, segment in enumerate(segments[:SEGMENTS_PER_STEP]):
        following = segments[number + 1] if number + 1 < len(segments) else None
        end_offset = log.log_end_offset if following is None else following.base_offset
        is_needed = following is None and not segment.size_bytes
        if end_offset > log.high_watermark or is_needed or not is_over(segment, following):
            return segments[:number]
    return segments[:SEGMENTS_PER_STEP]
