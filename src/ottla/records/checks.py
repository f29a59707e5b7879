"""Walk over the records of a batch and say whether a log may take them. The readable twin of the walk.

A leader looks into every batch before it appends it: a batch whose sum is right can still hold anything. This is the
only walk over records on the way of a record into the log, so it makes no object per record and copies nothing.

1. The records are exactly `record_count` sound records with nothing behind them, or it raises InvalidRecord and says
   which record is broken and how. No claimed length is believed beyond the bytes that are there.
2. Records that are sound but not allowed (no key where keys are required, a time out of bounds) are counted, and the
   first REFUSALS_LIMIT of them are listed with their reason: the producer may drop these and send the others again.
3. Records whose offsets do not count up from 0 are noticed, not refused; the log numbers them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.light_tuples import NamedTuple
from ottla.records.header import Buffer, view_of
from ottla.records.layout import (
    HEADER_ENTRY_BYTES_MIN,
    LENGTH_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    wrapped_int64,
)
from ottla.records.varint import decode_varint, decode_varlong

REFUSALS_LIMIT = 1000
UNPLACED: Final = bytes(LENGTH_AT)


class Refusal(IntEnum):
    """Why a sound record is not taken."""

    NO_KEY = 0
    TIME_OUT_OF_BOUNDS = 1
    # The producer claims that the broker set the time.
    APPEND_TIME_CLAIMED = 2


class RefusedRecord(NamedTuple):
    """One record that is not taken."""

    batch_index: int
    reason: Refusal
    timestamp_ms: int


class TimeBounds(NamedTuple):
    """How far a record's time may be from the broker's."""

    now_ms: int
    before_max_ms: int
    after_max_ms: int

    def allow(self, timestamp_ms: int) -> bool:
        """Computed in 64 bits, as Java does, so that both brokers refuse the same records."""
        behind_ms = wrapped_int64(self.now_ms - timestamp_ms)
        return behind_ms <= self.before_max_ms and wrapped_int64(-behind_ms) <= self.after_max_ms


class RecordsCheck(NamedTuple):
    """What the walk found."""

    max_timestamp_ms: int
    has_consecutive_offsets: bool
    refused_count: int
    refused: list[RefusedRecord]
    # Whether any of the refused, listed or not, is refused for its time.
    has_refused_time: bool


def check_records(
    records: Buffer,
    record_count: int,
    base_timestamp_ms: int,
    *,
    append_time_ms: int | None = None,
    keys_required: bool = False,
    bounds: TimeBounds | None = None,
) -> RecordsCheck:
    """Check the decompressed records of one batch.

    `append_time_ms` is the time of all records if the batch says that a broker set it. `bounds` None: times are free,
    because the broker will set them.
    """
    view = view_of(records)
    position = 0
    max_timestamp_ms = NO_TIMESTAMP
    is_consecutive = True
    refused: list[RefusedRecord] = []
    _check_count(record_count, len(view))
    for index in range(record_count):
        timestamp_delta, offset_delta, has_key, position = walk_record(view, position, index)
        timestamp_ms = wrapped_int64(base_timestamp_ms + timestamp_delta) if append_time_ms is None else append_time_ms
        max_timestamp_ms = max(max_timestamp_ms, timestamp_ms)
        is_consecutive = is_consecutive and offset_delta == index
        if keys_required and not has_key:
            refused.append(RefusedRecord(index, Refusal.NO_KEY, timestamp_ms))
        elif bounds is not None and timestamp_ms != NO_TIMESTAMP:
            if not bounds.allow(timestamp_ms):
                refused.append(RefusedRecord(index, Refusal.TIME_OUT_OF_BOUNDS, timestamp_ms))
        elif append_time_ms is not None:
            refused.append(RefusedRecord(index, Refusal.APPEND_TIME_CLAIMED, timestamp_ms))
    if position != len(view):
        raise InvalidRecord(f"{len(view) - position} bytes are left after the {record_count} records of the batch")
    has_refused_time = any(record.reason is not Refusal.NO_KEY for record in refused)
    return RecordsCheck(max_timestamp_ms, is_consecutive, len(refused), refused[:REFUSALS_LIMIT], has_refused_time)


class PlacedBatch(NamedTuple):
    """What a log must know of a batch that got its place."""

    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool


def place_plain_batch(
    buffer: Buffer,
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
    size_limit_bytes: int,
    keys_required: bool,
    before_max_ms: int,
    after_max_ms: int,
) -> PlacedBatch | None:
    """Check and place the plainest batch in one step: the native twin can, here it is always None.

    Plain is: from a client, one whole uncompressed batch, nothing to refuse, nothing to change but its place. The
    steps that this shortens are in ottla.storage.log.validation, and are taken whenever this says None.
    """
    return None


class PlacedRun(NamedTuple):
    """Batches that came together and got their places, one after the other."""

    batches: list[PlacedBatch]
    size_bytes: int
    max_timestamp_ms: int
    have_producer: bool
    """One of them at least has a producer that numbers its records."""


def place_plain_run(
    buffers: Sequence[Buffer],
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
    size_limit_bytes: int,
    keys_required: bool,
    before_max_ms: int,
    after_max_ms: int,
) -> PlacedRun | None:
    """`place_plain_batch` for batches that came together: all of them get their places, or none does.

    What is not placed keeps its bytes, but for the leader epoch, which is outside the sum and is given anew.
    """
    terms = now_ms, size_limit_bytes, keys_required, before_max_ms, after_max_ms
    batches: list[PlacedBatch] = []
    for buffer in buffers:
        placed = place_plain_batch(buffer, base_offset, leader_epoch, *terms)
        if placed is None:
            for each, _ in zip(buffers, batches, strict=False):
                memoryview(each)[:LENGTH_AT] = UNPLACED
            return None
        batches.append(placed)
        base_offset = placed.last_offset + 1
    return PlacedRun(
        batches,
        sum(each.size_bytes for each in batches),
        max((each.max_timestamp_ms for each in batches), default=NO_TIMESTAMP),
        any(each.producer_id != NO_PRODUCER_ID for each in batches),
    )


def _check_count(record_count: int, record_bytes: int) -> None:
    if record_count < 0 or record_count * RECORD_BYTES_MIN > record_bytes:
        raise InvalidRecord(f"the batch claims {record_count} records in {record_bytes} bytes")


def walk_record(view: memoryview, position: int, index: int) -> tuple[int, int, bool, int]:
    """Timestamp delta, offset delta, whether there is a key, and where the next record begins."""
    try:
        length, start = decode_varint(view, position)
        if not 0 <= length <= len(view) - start:
            raise CorruptMessage
        body = view[start : start + length]
        timestamp_delta, at = decode_varlong(body, 1)
        offset_delta, at = decode_varint(body, at)
        key_length, at = _skip_bytes(body, at, null_allowed=True)
        _, at = _skip_bytes(body, at, null_allowed=True)
        if _skip_headers(body, at) != length:
            raise CorruptMessage
    except CorruptMessage:
        raise InvalidRecord(f"record {index} of the batch is broken") from None
    return timestamp_delta, offset_delta, key_length >= 0, start + length


def _skip_bytes(body: memoryview, position: int, *, null_allowed: bool) -> tuple[int, int]:
    length, start = decode_varint(body, position)
    if length > len(body) - start or length < (-1 if null_allowed else 0):
        raise CorruptMessage
    return length, start + max(length, 0)


def _skip_headers(body: memoryview, position: int) -> int:
    count, position = decode_varint(body, position)
    if count < 0 or count * HEADER_ENTRY_BYTES_MIN > len(body) - position:
        raise CorruptMessage
    for _ in range(count):
        _, position = _skip_bytes(body, position, null_allowed=False)
        _, position = _skip_bytes(body, position, null_allowed=True)
    return position
