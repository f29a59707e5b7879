"""What a batch must be before it may be appended, and its place in the log: offset, leader epoch, time.

This is the leader's side; what a follower looks at is in follower_check.py.

1. A leader takes exactly one batch of format v2 at a time: a whole batch, its sum right, not too large, its header
   true to its records, every record sound and allowed. Anything else is refused with the error that tells the producer
   whether sending it again can help, and the buffer is left as it was.
2. Records that break a rule of the topic (no key on a compacted topic, a time out of bounds) are named one by one in
   `record_errors`, because a producer may drop just these.
3. The bytes that came from the socket are the bytes that go to the file: base offset and leader epoch are written
   into them outside the sum. Only a time of our own, or a largest time that the header had wrong, redoes the sum.
4. A batch is made again only when the topic asks for another codec, or when its records are not numbered 0, 1, 2...;
   for another codec the records themselves are kept, only their wrapping changes. Markers are never compressed.
5. Most batches are plain, and for these all steps are one native call, `place_plain_batch` with the `plain_terms` of
   the topic; the steps here are what it means.
6. A batch that is large when decompressed is checked piece by piece; only where it is made again it is held whole.
7. No walk over records outside the native leaf, no clock, no file.

What is refused, and how:
    CORRUPT_MESSAGE               a size or format that cannot be, bytes left behind it, a wrong sum
    INVALID_RECORD                no whole batch or more than one, old format, a control batch from a client, counts
                                  that do not agree, what cannot be decompressed, broken records, refused records
    INVALID_TIMESTAMP             a time out of bounds, or claimed to be a broker's
    MESSAGE_TOO_LARGE             above max.message.bytes, before or after recompression
    RECORD_LIST_TOO_LARGE         above segment.bytes
    UNSUPPORTED_COMPRESSION_TYPE  zstd in a request older than it, or a codec that does not exist
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from ottla.errors import (
    BrokerError,
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from ottla.light_tuples import NamedTuple
from ottla.records.checks import RecordsCheck, TimeBounds
from ottla.records.compression import Compression, decompress, decompress_in_pieces
from ottla.records.header import Buffer, view_of
from ottla.records.implementation import BatchInfo, crc32c
from ottla.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    DECOMPRESSED_LIMIT_BYTES,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAGIC_KNOWN_BYTES,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TimestampType,
)
from ottla.records.log_walks import RecordsWalk, check_records
from ottla.storage.log.batch_rewrite import place_batch, rewrap_batch
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.record_errors import refuse_records

T = TypeVar("T")
# Yields after each piece.
Walk: TypeAlias = Generator[None, None, T]
# The records, unless they were too many to be held at once, and what was found in them.
Checked: TypeAlias = tuple[Buffer | None, RecordsCheck]


View: TypeAlias = memoryview  # a compiled class finds its types among the names of its module


class AppendRules(NamedTuple):
    """What a topic's settings say about appends."""

    # compression.type; None is "producer": as it comes.
    compression: Compression | None = None
    # Of that codec; None is the codec's own default.
    compression_level: int | None = None
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 60 * 60 * 1000
    message_bytes_max: int = 1024 * 1024 + 12
    segment_bytes_max: int = 1024**3
    # cleanup.policy has compact
    keys_required: bool = False
    # How far one batch may grow when it is decompressed.
    decompressed_bytes_max: int = DECOMPRESSED_LIMIT_BYTES


class ValidatedAppend(NamedTuple):
    """Batches that may be written as they are."""

    buffer: View
    batches: list[BatchInfo]
    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    # The last offset of the first batch with that time: what the time index stores.
    offset_of_max_timestamp: int
    # -1 unless the topic's times are the broker's.
    log_append_time_ms: int
    # The newest epoch in the batches; -1 when they have none.
    leader_epoch: int
    # The bytes are others than those that came, in memory of their own.
    is_rewritten: bool

    @property
    def size_bytes(self) -> int:
        return len(self.buffer)


def prepare_leader_append(
    buffer: Buffer,
    rules: AppendRules,
    *,
    origin: AppendOrigin,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    zstd_allowed: bool = True,
    checked: RecordsCheck | None = None,
) -> ValidatedAppend:
    """Check one batch and give it its place, in `buffer` itself where it is writable and need not be rewritten.

    `checked` is what `inspect_batch` gave for the same bytes.
    """
    view = view_of(buffer)
    info = _only_batch(view, zstd_allowed=zstd_allowed)
    _check_envelope(view, info, rules, origin)
    _check_header(info, origin)
    records, found = (None, checked) if checked is not None else _at_once(_checked(view, info, rules, now_ms))
    is_ours = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    max_timestamp_ms = now_ms if is_ours else found.max_timestamp_ms
    final = _final_form(view, info, records, found, rules)
    if len(final) > rules.segment_bytes_max:
        raise RecordListTooLarge(f"the batch has {len(final)} bytes, a segment {rules.segment_bytes_max}")
    place_batch(final, next_offset, leader_epoch, rules.timestamp_type, max_timestamp_ms)
    append_time_ms = now_ms if is_ours else NO_TIMESTAMP
    return _validated_one(BatchInfo(final), final, append_time_ms, is_rewritten=final is not view)


def inspect_batch(
    buffer: Buffer, rules: AppendRules, *, origin: AppendOrigin, now_ms: int, zstd_allowed: bool = True
) -> Walk[RecordsCheck]:
    """What of the check may take long, piece by piece, for who has others to serve; refuses as an append does."""
    view = view_of(buffer)
    info = _only_batch(view, zstd_allowed=zstd_allowed)
    _check_envelope(view, info, rules, origin)
    _check_header(info, origin)
    return (yield from _checked(view, info, rules, now_ms))[1]


class PlainTerms(NamedTuple):
    """The last arguments of `place_plain_batch`."""

    size_limit_bytes: int
    keys_required: bool
    before_max_ms: int
    after_max_ms: int


def plain_terms(rules: AppendRules) -> PlainTerms | None:
    """On which terms plain batches of clients are accepted as they are; None when the topic changes every batch."""
    if rules.timestamp_type is not TimestampType.CREATE_TIME or rules.compression not in (None, Compression.NONE):
        return None
    return PlainTerms(
        min(rules.message_bytes_max, rules.segment_bytes_max),
        rules.keys_required,
        rules.timestamp_before_max_ms,
        rules.timestamp_after_max_ms,
    )


# --- the envelope ----------------------------------------------------------------------------------------------------


def _only_batch(view: memoryview, *, zstd_allowed: bool) -> BatchInfo:
    """The header of the one batch that fills the buffer."""
    if len(view) < MAGIC_KNOWN_BYTES:
        raise InvalidRecord(f"there must be one record batch, there are {len(view)} bytes")
    size_bytes, magic = _claimed_size(view), view[MAGIC_AT]
    if magic > MAGIC or size_bytes < HEADER_BYTES:
        raise CorruptMessage(f"a batch of {size_bytes} bytes in message format v{magic} cannot be")
    if magic < MAGIC:
        raise InvalidRecord(f"the records are in message format v{magic}, only v{MAGIC} is taken: use a newer client")
    if size_bytes > len(view):
        raise InvalidRecord(f"there must be one whole record batch, {len(view)} of its {size_bytes} bytes are there")
    info = BatchInfo(view)
    if info.attributes & COMPRESSION_MASK == Compression.ZSTD and not zstd_allowed:
        raise UnsupportedCompressionType("zstd may be used from version 7 of the produce request on")
    if size_bytes < len(view):
        raise _refuse_more(view[size_bytes:])
    return info


def _claimed_size(view: memoryview) -> int:
    return LOG_OVERHEAD_BYTES + int.from_bytes(view[LENGTH_AT:LEADER_EPOCH_AT], "big", signed=True)


def _refuse_more(rest: memoryview) -> BrokerError:
    """A second batch is the producer's mistake; bytes that are none mean that the length of the first was damaged."""
    if len(rest) >= MAGIC_KNOWN_BYTES and HEADER_BYTES <= _claimed_size(rest) <= len(rest):
        return InvalidRecord("there must be one record batch, another one follows it")
    return CorruptMessage(f"{len(rest)} bytes follow the batch")


def _check_envelope(view: memoryview, info: BatchInfo, rules: AppendRules, origin: AppendOrigin) -> None:
    if origin is AppendOrigin.CLIENT and info.base_offset != 0:
        raise InvalidRecord(f"the base offset of a produced batch is 0, this one says {info.base_offset}")
    _check_size(info.size_bytes, rules)
    found = crc32c(view[ATTRIBUTES_AT:])
    if found != info.crc:
        raise CorruptMessage(f"the batch says its CRC is {info.crc:#010x}, its bytes give {found:#010x}")
    if info.attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise UnsupportedCompressionType(f"compression codec {info.attributes & COMPRESSION_MASK} does not exist")


def _check_size(size_bytes: int, rules: AppendRules) -> None:
    if size_bytes > rules.message_bytes_max:
        raise MessageTooLarge(f"the batch has {size_bytes} bytes, max.message.bytes is {rules.message_bytes_max}")


def _check_header(info: BatchInfo, origin: AppendOrigin) -> None:
    """What the header says must be true of any batch, and be nothing that only a broker may say."""
    count, last_offset_delta = info.record_count, info.last_offset_delta
    if count <= 0 or last_offset_delta != count - 1:
        raise InvalidRecord(f"the batch claims {count} records and a last offset delta of {last_offset_delta}")
    if origin is not AppendOrigin.CLIENT:
        return
    if info.is_control:
        raise InvalidRecord("clients may not write control records")
    if info.producer_id == NO_PRODUCER_ID:
        if info.is_transactional:
            raise InvalidRecord("a transactional batch has no producer id")
    elif info.producer_id < 0 or info.producer_epoch < 0 or info.base_sequence < 0:
        raise InvalidRecord(
            f"the batch is from producer {info.producer_id}, epoch {info.producer_epoch}, sequence {info.base_sequence}"
        )


# --- the records -----------------------------------------------------------------------------------------------------


def _checked(view: memoryview, info: BatchInfo, rules: AppendRules, now_ms: int) -> Walk[Checked]:
    """What the walk over the records found, and the records, unless they were too many to be held at once."""
    bounds = None
    if rules.timestamp_type is TimestampType.CREATE_TIME:
        bounds = TimeBounds(now_ms, rules.timestamp_before_max_ms, rules.timestamp_after_max_ms)
    how = {
        "append_time_ms": info.max_timestamp_ms if info.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        "keys_required": rules.keys_required,
        "bounds": bounds,
    }
    try:
        records, found = yield from _walked(view[HEADER_BYTES:], info, rules, how)
    except CorruptMessage as error:
        # The sum was right, so it was sent like this, and sending it again cannot help.
        raise InvalidRecord(error.detail) from None
    if found.refused_count:
        raise refuse_records(found, bounds)
    return records, found


def _walked(payload: memoryview, info: BatchInfo, rules: AppendRules, how: dict[str, Any]) -> Walk[Checked]:
    """Most batches are one piece when decompressed. Of a larger one no more than a piece is held."""
    if info.compression is Compression.NONE:
        return payload, check_records(payload, info.record_count, info.base_timestamp_ms, **how)
    pieces = decompress_in_pieces(info.compression, payload, rules.decompressed_bytes_max)
    first, second = next(pieces, b""), next(pieces, None)
    if second is None:
        return first, check_records(first, info.record_count, info.base_timestamp_ms, **how)
    walk = RecordsWalk(info.record_count, info.base_timestamp_ms, **how)
    for piece in chain((first, second), pieces):
        walk.feed(piece)
        yield
    return None, walk.finish()


def _at_once(walk: Walk[T]) -> T:
    try:
        while True:
            next(walk)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # of what a generator returns nothing is known


def _final_form(
    view: memoryview, info: BatchInfo, records: Buffer | None, found: RecordsCheck, rules: AppendRules
) -> memoryview:
    """The bytes to write: `view` itself, unless they must be others or cannot be written into."""
    codec = _target_codec(info, rules)
    if codec is info.compression and found.has_consecutive_offsets:
        return memoryview(bytearray(view)) if view.readonly else view
    if records is None:
        records = decompress(info.compression, view[HEADER_BYTES:], rules.decompressed_bytes_max)
    rewrapped = rewrap_batch(
        view,
        info,
        records,
        codec=codec,
        level=rules.compression_level if codec is rules.compression else None,
        has_consecutive_offsets=found.has_consecutive_offsets,
        decompressed_bytes_max=rules.decompressed_bytes_max,
    )
    _check_size(len(rewrapped), rules)
    return memoryview(rewrapped)


def _target_codec(info: BatchInfo, rules: AppendRules) -> Compression:
    if rules.compression is None or (info.is_control and info.compression is Compression.NONE):
        return info.compression
    return rules.compression


def _validated_one(info: BatchInfo, view: memoryview, append_time_ms: int, *, is_rewritten: bool) -> ValidatedAppend:
    last_offset = info.last_offset
    return ValidatedAppend(
        view,
        [info],
        info.base_offset,
        last_offset,
        info.max_timestamp_ms,
        last_offset,
        append_time_ms,
        info.leader_epoch,
        is_rewritten,
    )
