"""Offsets by other questions: by time, the first, the last, the end of a leader's epoch.

1. A question by time goes to the first segment whose latest timestamp has reached it, and on from there; within the
   segment the time index and one batch are read.
2. The latest timestamp of all is the first record that has it, as ListOffsets gives it for -3.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.storage.log.leader_epochs import EpochEnd
from ottla.storage.log.log_state import LogState
from ottla.storage.segment.segment import FoundOffset


class OffsetAndEpoch(NamedTuple):
    """An end of the log and the leader's epoch there; None when it is not known."""

    offset: int
    leader_epoch: int | None


def offset_for_timestamp(log: LogState, timestamp_ms: int) -> FoundOffset | None:
    """The first record at or after a time; None when all are older."""
    for segment in log.segments.values(log.log_start_offset):
        if log.segments.sound(segment, lambda each: each.max_timestamp.timestamp_ms) >= timestamp_ms:
            found = log.segments.sound(
                segment, lambda each: each.find_offset_by_timestamp(timestamp_ms, log.log_start_offset)
            )
            if found is not None:
                return found
    return None


def offset_of_max_timestamp(log: LogState) -> FoundOffset | None:
    """The first record with the latest timestamp of the log; None when no record has one."""
    newest, newest_ms = None, -1
    for segment in log.segments.values(log.log_start_offset):
        timestamp_ms = log.segments.sound(segment, lambda each: each.max_timestamp.timestamp_ms)
        if timestamp_ms > newest_ms:
            newest, newest_ms = segment, timestamp_ms
    return None if newest is None else log.segments.sound(newest, lambda each: each.find_latest_timestamp())


def earliest_offset(log: LogState) -> OffsetAndEpoch:
    """Where the log starts."""
    earliest = log.epochs.earliest
    is_known = earliest is not None and earliest.start_offset <= log.log_start_offset
    return OffsetAndEpoch(log.log_start_offset, earliest.epoch if earliest is not None and is_known else None)


def latest_offset(log: LogState) -> OffsetAndEpoch:
    """Where the log ends."""
    latest = log.epochs.latest
    return OffsetAndEpoch(log.log_end_offset, None if latest is None else latest.epoch)


def end_offset_for_epoch(log: LogState, leader_epoch: int) -> EpochEnd:
    """The largest epoch up to the one asked for, and where it ends here."""
    return log.epochs.end_offset_for(leader_epoch, log.log_end_offset)
