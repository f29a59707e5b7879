"""The walk of checks.py over records that come in pieces, so that nobody has to hold all of them. The readable twin.

    walk = RecordsWalk(record_count, base_timestamp_ms, bounds=bounds)
    for piece in decompress_in_pieces(codec, payload, limit_bytes):
        walk.feed(piece)
    found = walk.finish()

A batch of a megabyte may hold a hundred when it is decompressed. What the walk keeps of that is the record it is in the
middle of, and of a large record not even that: keys, values and headers are passed over as they come.

1. However the records are cut into pieces, the outcome is that of check_records() on all of them.
2. A record that is broken is refused as soon as it is seen, and so is the first byte after the last record.
3. One use: after `finish`, or after it has refused, a walk is over.
"""

from __future__ import annotations

from collections.abc import Generator

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records.checks import REFUSALS_LIMIT, RecordsCheck, Refusal, RefusedRecord, TimeBounds, walk_record
from ottla.records.header import Buffer, view_of
from ottla.records.layout import NO_TIMESTAMP, wrapped_int64

# A part of the walk: it yields when it needs the next piece.
Part = Generator[None, memoryview, int]


class RecordsWalk:
    """Checks the decompressed records of one batch, piece by piece."""

    def __init__(
        self,
        record_count: int,
        base_timestamp_ms: int,
        *,
        append_time_ms: int | None = None,
        keys_required: bool = False,
        bounds: TimeBounds | None = None,
    ) -> None:
        if record_count < 0:
            raise InvalidRecord(f"the batch claims {record_count} records")
        self._record_count = record_count
        self._base_timestamp_ms = base_timestamp_ms
        self._append_time_ms = append_time_ms
        self._keys_required = keys_required
        self._bounds = bounds
        self._piece = memoryview(b"")
        self._at = 0
        self._read_bytes = 0  # bytes of the record that is read part by part
        self._index = 0
        self._max_timestamp_ms = NO_TIMESTAMP
        self._is_consecutive = True
        self._refused: list[RefusedRecord] = []
        self._refused_count = 0
        self._has_refused_time = False
        self._parts = self._records()
        next(self._parts)

    def feed(self, piece: Buffer) -> None:
        """The next bytes of the records; InvalidRecord when they cannot be right."""
        view = view_of(piece)
        if not len(view):
            return
        try:
            self._parts.send(view)
        except CorruptMessage:
            raise InvalidRecord(f"record {self._index} of the batch is broken") from None
        except StopIteration:
            raise InvalidRecord(f"bytes are left after the {self._record_count} records of the batch") from None

    def finish(self) -> RecordsCheck:
        """What the walk found, when all bytes were fed; InvalidRecord when some are missing."""
        if self._index < self._record_count:
            raise InvalidRecord(f"record {self._index} of the batch is broken")
        return RecordsCheck(
            self._max_timestamp_ms, self._is_consecutive, self._refused_count, self._refused, self._has_refused_time
        )

    # --- records ---

    def _records(self) -> Part:
        """Record after record: at once if it lies within a piece, otherwise part by part."""
        while self._index < self._record_count:
            if self._at == len(self._piece):
                yield from self._more()
            try:
                timestamp_delta, offset_delta, has_key, self._at = walk_record(self._piece, self._at, self._index)
            except InvalidRecord:
                timestamp_delta, offset_delta, has_key = yield from self._record_in_parts()
            self._judge(timestamp_delta, offset_delta, has_key)
            self._index += 1
        if self._at == len(self._piece):
            yield from self._more()  # ends the walk, unless there is one byte more
        return 0

    def _record_in_parts(self) -> Generator[None, memoryview, tuple[int, int, bool]]:
        length = yield from self._varint(32)
        if length < 1:
            raise CorruptMessage
        self._read_bytes = 0
        yield from self._skip(1, length)
        timestamp_delta = yield from self._varint(64)
        offset_delta = yield from self._varint(32)
        key_length = yield from self._sized(length, shortest=-1)
        yield from self._sized(length, shortest=-1)
        headers = yield from self._varint(32)
        if not 0 <= headers <= length:
            raise CorruptMessage
        for _ in range(headers):
            yield from self._sized(length, shortest=0)
            yield from self._sized(length, shortest=-1)
        if self._read_bytes != length:
            raise CorruptMessage
        return timestamp_delta, offset_delta, key_length >= 0

    def _judge(self, timestamp_delta: int, offset_delta: int, has_key: bool) -> None:
        timestamp_ms = self._append_time_ms
        if timestamp_ms is None:
            timestamp_ms = wrapped_int64(self._base_timestamp_ms + timestamp_delta)
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        self._is_consecutive = self._is_consecutive and offset_delta == self._index
        if self._keys_required and not has_key:
            self._refuse(Refusal.NO_KEY, timestamp_ms)
        elif self._bounds is not None and timestamp_ms != NO_TIMESTAMP:
            if not self._bounds.allow(timestamp_ms):
                self._refuse(Refusal.TIME_OUT_OF_BOUNDS, timestamp_ms)
        elif self._append_time_ms is not None:
            self._refuse(Refusal.APPEND_TIME_CLAIMED, timestamp_ms)

    def _refuse(self, reason: Refusal, timestamp_ms: int) -> None:
        self._refused_count += 1
        self._has_refused_time = self._has_refused_time or reason is not Refusal.NO_KEY
        if len(self._refused) < REFUSALS_LIMIT:
            self._refused.append(RefusedRecord(self._index, reason, timestamp_ms))

    # --- parts of a record ---

    def _more(self) -> Part:
        self._piece = yield
        self._at = 0
        return 0

    def _varint(self, bits: int) -> Part:
        raw = 0
        for shift in range(0, bits, 7):
            if self._at == len(self._piece):
                yield from self._more()
            byte = self._piece[self._at]
            self._at += 1
            self._read_bytes += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                if raw >> bits:
                    break
                return (raw >> 1) ^ -(raw & 1)
        raise CorruptMessage

    def _sized(self, record_length: int, *, shortest: int) -> Part:
        """Past a length and so many bytes; returns the length, -1 is null."""
        length = yield from self._varint(32)
        if length < shortest:
            raise CorruptMessage
        yield from self._skip(max(length, 0), record_length)
        return length

    def _skip(self, count: int, record_length: int) -> Part:
        self._read_bytes += count
        if self._read_bytes > record_length:
            raise CorruptMessage
        while count > len(self._piece) - self._at:
            count -= len(self._piece) - self._at
            yield from self._more()
        self._at += count
        return 0
