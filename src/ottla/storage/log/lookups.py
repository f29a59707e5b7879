"""Offsets by other questions: by time, the first, the last, the end of a leader's epoch.

1. A question by time goes to the first segment whose latest timestamp has reached it, and on from there; within the
   segment the time index and one batch are read.
2. The latest timestamp of all is the first record that has it, as ListOffsets gives it for -3.
"""

from __future__ import annotations

from ottla.light_tuples import NamedTuple
from ottla.storage.log.leader_epochs import EpochEnd, EpochHistory
from ottla.storage.log.log_end import LogEnd
from ottla.storage.segment.segment import FoundOffset


class OffsetAndEpoch(NamedTuple):
    """An end of the log and the leader's epoch there; None when it is not known."""

    offset: int
    leader_epoch: int | None


class OffsetLookup:
    """Finds offsets of one log."""

    def __init__(self, end: LogEnd, epoch_history: EpochHistory) -> None:
        self._end = end
        self._segments = end.segments
        self._epoch_history = epoch_history

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record at or after a time; None when all are older."""
        for segment in self._segments.values(self._end.log_start_offset):
            if self._segments.sound(segment, lambda each: each.max_timestamp.timestamp_ms) >= timestamp_ms:
                found = self._segments.sound(
                    segment, lambda each: each.find_offset_by_timestamp(timestamp_ms, self._end.log_start_offset)
                )
                if found is not None:
                    return found
        return None

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """The first record with the latest timestamp of the log; None when no record has one."""
        newest, newest_ms = None, -1
        for segment in self._segments.values(self._end.log_start_offset):
            timestamp_ms = self._segments.sound(segment, lambda each: each.max_timestamp.timestamp_ms)
            if timestamp_ms > newest_ms:
                newest, newest_ms = segment, timestamp_ms
        return None if newest is None else self._segments.sound(newest, lambda each: each.find_latest_timestamp())

    def earliest_offset(self) -> OffsetAndEpoch:
        """Where the log starts."""
        earliest = self._epoch_history.epochs.earliest
        is_known = earliest is not None and earliest.start_offset <= self._end.log_start_offset
        return OffsetAndEpoch(self._end.log_start_offset, earliest.epoch if earliest is not None and is_known else None)

    def latest_offset(self) -> OffsetAndEpoch:
        """Where the log ends."""
        latest = self._epoch_history.epochs.latest
        return OffsetAndEpoch(self._end.log_end_offset, None if latest is None else latest.epoch)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch up to the one asked for, and where it ends here."""
        return self._epoch_history.epochs.end_offset_for(leader_epoch, self._end.log_end_offset)
