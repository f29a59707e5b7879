"""Refusals that name records: which ones of a batch, and why each.

They are InvalidRecord and InvalidTimestamp as everywhere; `record_errors` is what the produce answer lists, so that a
producer can drop these records and send the others again. At most REFUSALS_LIMIT are named, the detail says how many
there are.
"""

from __future__ import annotations

from ottla.errors import InvalidRecord, InvalidTimestamp, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.records.checks import RecordsCheck, Refusal, RefusedRecord, TimeBounds

SHOWN = 3


class RecordError(NamedTuple):
    """Why one record was refused; `batch_index` counts from 0 in its batch."""

    batch_index: int
    message: str


class RecordsRefused(OttlaError):
    """Some records of a batch were refused. The others may be sent again without them."""

    def __init__(self, detail: str | None = None, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(detail)
        self.record_errors = record_errors


class InvalidRecords(RecordsRefused, InvalidRecord):
    """The topic does not take some of the records.
    A compacted topic, for one, takes no record without a key; drop these records or change the topic."""


class InvalidTimestamps(RecordsRefused, InvalidTimestamp):
    """The times of some records are too far from the broker's clock.
    Check the clocks, or message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic."""


def refuse_records(found: RecordsCheck, bounds: TimeBounds | None) -> RecordsRefused:
    """The error for a batch of which records were refused: one bad time makes it an error of times."""
    errors = tuple(RecordError(record.batch_index, _message(record, bounds)) for record in found.refused)
    shown = "; ".join(f"record {error.batch_index}: {error.message}" for error in errors[:SHOWN])
    error = InvalidTimestamps if found.has_refused_time else InvalidRecords
    return error(f"{found.refused_count} records are refused, {shown}", errors)


def _message(record: RefusedRecord, bounds: TimeBounds | None) -> str:
    if record.reason is Refusal.NO_KEY:
        return "a compacted topic takes no record without a key"
    if record.reason is Refusal.APPEND_TIME_CLAIMED or bounds is None:
        return "a producer may not say that its times are the broker's"
    return (
        f"time {record.timestamp_ms} is not between {bounds.now_ms - bounds.before_max_ms} "
        f"and {bounds.now_ms + bounds.after_max_ms}"
    )
