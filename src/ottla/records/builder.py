"""BatchBuilder: records in, one finished batch out. The readable twin of the writer.

Records are gathered uncompressed behind a header that is filled in by close(); compression happens once, there.

1. append() says False when the batch has no room, and never for the first record: a record larger than the limit
   travels alone. A refused or failed append changes nothing.
2. Room is judged as Java does: header + bytes so far (times the expected compression ratio and 1.05) + the new
   record uncompressed must stay within size_limit_bytes.
3. close() may be called again and gives the same bytes. What it gave never changes: set_producer() after close makes
   new bytes, so a batch that still sits in a socket's queue is not rewritten under it.
4. The codec asked for is the codec used, also when compressing makes the batch larger.
5. A builder without records closes to b"": there is no batch. Compaction, which must keep the last offset of a batch
   it emptied, says so with override_last_offset() and gets a header without records.
6. A builder belongs to one thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.checksum import crc32c
from ottla.records.compression import Compression, check_level, compress
from ottla.records.layout import (
    ATTRIBUTES_AT,
    BATCH_BYTES_MAX,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    check_producer,
    wrapped_int64,
)
from ottla.records.varint import encode_varint, encode_varlong

Bytes = bytes | bytearray | memoryview
HeaderInput = Sequence[tuple[str, Bytes | None]]

# Java's COMPRESSION_RATE_ESTIMATION_FACTOR: a batch may turn out a little worse than its forerunners.
ESTIMATE_MARGIN = 1.05
RECORD_BYTES_LIMIT = BATCH_BYTES_MAX - HEADER_BYTES
_NULL = encode_varint(-1)


class CompressionRatios:
    """What compression made of earlier batches, per topic and codec: the expectation for the next one.

    Good news is believed slowly (a step of 0.005 down), bad news at once (at least 0.05 up): a batch that turns out
    too large must be split and sent again, one that turns out small costs nothing. Nothing known is 1.0.
    """

    IMPROVING_STEP = 0.005
    DETERIORATING_STEP = 0.05

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, Compression], float] = {}

    def estimate(self, topic: str, codec: Compression) -> float:
        """The ratio to expect: compressed over uncompressed."""
        return self._ratios.get((topic, codec), 1.0)

    def update(self, topic: str, codec: Compression, observed: float) -> float:
        """Learn from a finished batch; returns the new expectation."""
        ratio = self.estimate(topic, codec)
        if observed > ratio:
            ratio = max(ratio + self.DETERIORATING_STEP, observed)
        elif observed < ratio:
            ratio = max(ratio - self.IMPROVING_STEP, observed)
        self._ratios[topic, codec] = ratio
        return ratio

    def reset(self, topic: str, codec: Compression, ratio: float = 1.0) -> None:
        """Set the expectation: a broker said a batch was too large, so the estimate was wrong."""
        self._ratios[topic, codec] = ratio

    def forget(self, topic: str) -> None:
        """Drop what is known of a topic that is not written to any more."""
        for codec in Compression:
            self._ratios.pop((topic, codec), None)


class BatchBuilder:
    """Gathers records for one batch."""

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        size_limit_bytes: int = 16384,
        base_offset: int = 0,
        log_append_time_ms: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        delete_horizon_ms: int | None = None,
        compression_ratio: float = 1.0,
    ) -> None:
        check_builder_arguments(compression, level, size_limit_bytes, compression_ratio)
        self._compression = Compression(compression)
        self._level = level
        self._size_limit_bytes = size_limit_bytes
        self._base_offset = base_offset
        self._log_append_time_ms = log_append_time_ms
        self._control = control
        self._leader_epoch = leader_epoch
        self._delete_horizon_ms = delete_horizon_ms
        self._ratio = compression_ratio
        self._base_timestamp_ms = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp_ms = NO_TIMESTAMP
        self._last_offset = base_offset - 1
        self._count = 0
        self._records = bytearray()
        self._closed: bytes | None = None
        self.set_producer(producer_id, producer_epoch, base_sequence, transactional)

    # ---- what it knows of itself ----

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def uncompressed_bytes(self) -> int:
        """The records alone, before compression."""
        return len(self._records)

    @property
    def size_estimate_bytes(self) -> int:
        """What the batch will take on the wire, header included; exact once it is closed."""
        if self._closed is not None:
            return len(self._closed)
        if self._compression is Compression.NONE:
            return HEADER_BYTES + len(self._records)
        return HEADER_BYTES + int(len(self._records) * self._ratio * ESTIMATE_MARGIN)

    @property
    def is_full(self) -> bool:
        """No further record will be taken."""
        return self.is_closed or (self._count > 0 and self.size_estimate_bytes >= self._size_limit_bytes)

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    @property
    def compression_ratio(self) -> float:
        """Compressed over uncompressed: the expectation while open, the truth after close."""
        return self._ratio

    # ---- taking records ----

    def append(self, timestamp_ms: int, key: Bytes | None, value: Bytes | None, headers: HeaderInput = ()) -> bool:
        """Take one record at the next offset; False when there is no room for it."""
        return self.append_with_offset(self._last_offset + 1, timestamp_ms, key, value, headers)

    def append_with_offset(
        self, offset: int, timestamp_ms: int, key: Bytes | None, value: Bytes | None, headers: HeaderInput = ()
    ) -> bool:
        """Take one record at this offset, which must lie behind the last one; gaps are kept."""
        if self._closed is not None:
            return False
        if offset <= self._last_offset:
            raise ValueError(f"offset {offset} does not come after {self._last_offset}")
        if type(timestamp_ms) is not int or not NO_TIMESTAMP <= timestamp_ms < 2**63:
            check_timestamp(timestamp_ms)
        is_first_time = self._count == 0 and self._delete_horizon_ms is None
        base_timestamp_ms = timestamp_ms if is_first_time else self._base_timestamp_ms
        record = encode_record(offset - self._base_offset, timestamp_ms - base_timestamp_ms, key, value, headers)
        if not self._has_room_for(len(record)):
            return False
        self._records += record
        self._base_timestamp_ms = base_timestamp_ms
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        self._last_offset = offset
        self._count += 1
        return True

    def append_many(
        self,
        timestamps: int | Sequence[int],
        keys: Sequence[Bytes | None] | None,
        values: Sequence[Bytes | None],
        headers: Sequence[HeaderInput] | None = None,
    ) -> int:
        """Take records from parallel lists; returns how many fitted.

        When one of them is refused with an error, none is taken.
        """
        count = len(values)
        times = [timestamps] * count if isinstance(timestamps, int) else timestamps
        check_lengths(count, times, keys, headers)
        before = (len(self._records), self._base_timestamp_ms, self._max_timestamp_ms, self._last_offset, self._count)
        try:
            for index in range(count):
                key = None if keys is None else keys[index]
                if not self.append(times[index], key, values[index], () if headers is None else headers[index]):
                    return index
        except BaseException:
            length, self._base_timestamp_ms, self._max_timestamp_ms, self._last_offset, self._count = before
            del self._records[length:]
            raise
        return count

    def _has_room_for(self, record_bytes: int) -> bool:
        if len(self._records) + record_bytes > RECORD_BYTES_LIMIT:
            if self._count == 0:
                raise ValueError(f"a record of {record_bytes} bytes cannot be sent: a batch holds {RECORD_BYTES_LIMIT}")
            return False
        return self._count == 0 or self.size_estimate_bytes + record_bytes <= self._size_limit_bytes

    # ---- finishing ----

    def set_producer(self, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool) -> None:
        """Say whose batch it is. After close the header is written again: a retry may come with a new epoch."""
        check_producer(producer_id, producer_epoch, base_sequence, transactional=transactional, control=self._control)
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._transactional = transactional
        if self._closed:
            self._closed = self._finished(self._closed[HEADER_BYTES:])

    def override_last_offset(self, last_offset: int) -> None:
        """Let the batch end at this offset although its last records are gone, as compaction leaves it."""
        if last_offset < self._last_offset:
            raise ValueError(f"the batch already reaches offset {self._last_offset}, it cannot end at {last_offset}")
        if self._closed is not None:
            raise ValueError("the batch is closed; say where it ends before")
        self._last_offset = last_offset

    def close(self) -> bytes:
        """The finished batch."""
        if self._closed is None:
            if self._last_offset < self._base_offset:
                self._closed = b""
            else:
                self._closed = self._finished(self._compressed())
        return self._closed

    def _compressed(self) -> bytes:
        if self._compression is Compression.NONE or not self._count:
            self._ratio = 1.0
            return bytes(self._records)
        compressed = compress(self._compression, self._records, self._level)
        self._ratio = len(compressed) / len(self._records)
        return compressed

    def _finished(self, records: bytes) -> bytes:
        batch = bytearray(HEADER_BYTES) + records
        max_timestamp_ms = self._max_timestamp_ms if self._log_append_time_ms is None else self._log_append_time_ms
        HEADER.pack_into(
            batch,
            0,
            self._base_offset,
            len(batch) - LOG_OVERHEAD_BYTES,
            self._leader_epoch,
            MAGIC,
            0,
            self._attributes(),
            self._last_offset - self._base_offset,
            self._base_timestamp_ms,
            max_timestamp_ms,
            *self._producer,
            self._count,
        )
        batch[CRC_AT:ATTRIBUTES_AT] = crc32c(memoryview(batch)[ATTRIBUTES_AT:]).to_bytes(4, "big")
        return bytes(batch)

    def _attributes(self) -> int:
        attributes = int(self._compression) if self._count else 0
        if self._log_append_time_ms is not None:
            attributes |= LOG_APPEND_TIME_BIT
        if self._transactional:
            attributes |= TRANSACTIONAL_BIT
        if self._control:
            attributes |= CONTROL_BIT
        if self._delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_BIT
        return attributes


def check_builder_arguments(
    compression: Compression, level: int | None, size_limit_bytes: int, compression_ratio: float
) -> None:
    """What the constructor refuses before the first record comes."""
    check_level(Compression(compression), level)
    if not 0 <= size_limit_bytes <= BATCH_BYTES_MAX:
        raise ValueError(f"size_limit_bytes must be between 0 and {BATCH_BYTES_MAX}, not {size_limit_bytes}")
    if not compression_ratio > 0:
        raise ValueError(f"compression_ratio must be above 0, not {compression_ratio}")


def check_timestamp(timestamp_ms: object) -> None:
    """Milliseconds since 1970 in an int64, or -1."""
    if not isinstance(timestamp_ms, int):
        raise TypeError(f"a record's timestamp must be int (milliseconds), not {type(timestamp_ms).__name__}")
    if not NO_TIMESTAMP <= timestamp_ms < 2**63:
        raise ValueError(f"timestamp {timestamp_ms} is out of range: 0 to 2^63 - 1, or -1 for no timestamp")


def check_lengths(count: int, *columns: Sequence[object] | None) -> None:
    """Parallel lists must be equally long, or a key would meet another record's value."""
    for column in columns:
        if column is not None and len(column) != count:
            raise ValueError(f"append_many needs lists of one length: {count} values came with {len(column)} others")


def encode_record(
    offset_delta: int, timestamp_delta: int, key: Bytes | None, value: Bytes | None, headers: HeaderInput
) -> bytes:
    """One record with its length in front."""
    parts = [b"\x00", encode_varlong(wrapped_int64(timestamp_delta)), encode_varint(offset_delta)]
    _add_bytes(parts, key, "key")
    _add_bytes(parts, value, "value")
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        _add_bytes(parts, name.encode(), "header key")
        _add_bytes(parts, content, "header value")
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _add_bytes(parts: list[bytes], data: Bytes | None, what: str) -> None:
    if data is None:
        parts.append(_NULL)
        return
    if not isinstance(data, bytes):
        data = owned_bytes(data, what)
    parts.append(encode_varint(len(data)))
    parts.append(data)


def owned_bytes(data: object, what: str) -> bytes:
    """The content of a bytes-like object, or a sentence about what was given instead."""
    try:
        view = memoryview(data)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a record's {what} must be bytes-like or None, not {type(data).__name__}") from None
    if not view.c_contiguous:
        raise TypeError(f"a record's {what} must be contiguous bytes, not a strided view")
    return view.tobytes()
