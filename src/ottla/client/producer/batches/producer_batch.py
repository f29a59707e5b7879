"""One batch on its way: records are written into it while it is open, then it travels. The readable twin.

1. Records are written behind a header of 61 bytes that is filled in when the batch is sealed. Room is judged as Java
   does: an empty batch takes any record that its buffer holds; after that, bytes so far (times the expected ratio and
   1.05 if they will be compressed) and the new record must stay within the limit.
2. `stop` and `close` end the taking of records for good. `close` compresses; it may take a while and hold up nobody.
3. `seal` returns the bytes with a stamp in the header. Bytes that were handed out never change: a new stamp, after an
   epoch was bumped, is written into a copy if somebody still has the old bytes.
4. `release` gives the memory back once, and the buffer only when no request refers to it.
"""

from __future__ import annotations

from typing import Any

from ottla.client.producer.batches.delivery import Delivery, SendFuture
from ottla.client.producer.values import HeaderItems
from ottla.records.builder import check_timestamp, encode_record
from ottla.records.checksum import crc32c
from ottla.records.compression import Compression, compress
from ottla.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
)

ESTIMATE_MARGIN = 1.05


class ProducerBatch:
    """One batch: records are written into it while it is open, then it travels."""

    def __init__(
        self,
        queue: Any,
        topic: str,
        partition: int,
        buffer: bytearray,
        accounted_bytes: int,
        *,
        limit_bytes: int,
        created_ms: float,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        ratio: float = 1.0,
    ) -> None:
        self.delivery = Delivery(topic, partition)
        self.queue = queue
        self.buffer: bytearray | None = buffer
        self.accounted_bytes = accounted_bytes
        self.is_open = True
        self.record_count = 0
        self.created_ms = created_ms
        self.last_attempt_ms = created_ms
        self.backoff_ms = 0.0
        self.attempts = 0
        self.stamp: Any = None
        self.leader_epoch = -1
        self.compression = compression
        self.is_compressed = compression is not Compression.NONE
        self.compression_ratio = ratio
        self.max_timestamp_ms = -1
        self._level = level
        self._limit_bytes = limit_bytes
        self._capacity = len(buffer)
        self._used = HEADER_BYTES
        self._base_time_ms = 0
        self._payload: bytes | None = None
        self._sealed_as: tuple[int, int, int, bool] | None = None
        self._whole: bytes | None = None

    # --- what it knows of itself ---

    @property
    def _estimate(self) -> int:
        if self.is_compressed:
            return HEADER_BYTES + int((self._used - HEADER_BYTES) * self.compression_ratio * ESTIMATE_MARGIN)
        return self._used

    @property
    def size_bytes(self) -> int:
        """What it takes on the wire: an estimate while it is open, then the truth."""
        return self._estimate if self._payload is None else HEADER_BYTES + len(self._payload)

    @property
    def uncompressed_bytes(self) -> int:
        return self._used - HEADER_BYTES

    @property
    def is_full(self) -> bool:
        return not self.is_open or (self.record_count > 0 and self._estimate >= self._limit_bytes)

    def fits(self, needed_bytes: int) -> bool:
        """Whether a record that needs at most so much, header of a batch included, finds room."""
        record_bytes = needed_bytes - HEADER_BYTES
        if not self.is_open or self._used + record_bytes > self._capacity:
            return False
        return self.record_count == 0 or self._estimate + record_bytes <= self._limit_bytes

    def fits_grown(self, needed_bytes: int) -> bool:
        """Whether only the buffer is too small, while the batch (after compression, if any) would have room."""
        return self.is_open and self._estimate + needed_bytes - HEADER_BYTES <= self._limit_bytes

    # --- taking records ---

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: HeaderItems = ()) -> bool:
        """Take one record; False when there is no room."""
        return self.take(timestamp_ms, key, value, headers) > 0

    def take(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: HeaderItems = ()) -> int:
        """The bytes it took, 0 when there is no room, -1 when there would be in a larger buffer."""
        if type(timestamp_ms) is not int or not 0 <= timestamp_ms < 2**63:
            check_timestamp(-2 if isinstance(timestamp_ms, int) and timestamp_ms < 0 else timestamp_ms)
        base_time_ms = self._base_time_ms if self.record_count else timestamp_ms
        items: Any = list(headers.items() if isinstance(headers, dict) else headers)
        record = encode_record(self.record_count, timestamp_ms - base_time_ms, key, value, items)
        if not self.is_open or self.buffer is None:
            return 0
        if self.record_count and self._estimate + len(record) > self._limit_bytes:
            return 0
        if self._used + len(record) > self._capacity:
            return -1
        self.buffer[self._used : self._used + len(record)] = record
        self._used += len(record)
        self._base_time_ms = base_time_ms
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)
        self.record_count += 1
        return len(record)

    def future_at(self, index: int, timestamp_ms: int, key_bytes: int, value_bytes: int) -> SendFuture:
        """A future for a record that is in this batch already."""
        return SendFuture(self.delivery, index, timestamp_ms, key_bytes, value_bytes)

    def grow(self, buffer: bytearray, accounted_bytes: int) -> bytearray:
        """Go on in a larger buffer; returns the old one back."""
        assert self.buffer is not None, "only an open batch grows"
        old = self.buffer
        buffer[: self._used] = old[: self._used]
        self.buffer, self._capacity, self.accounted_bytes = buffer, len(buffer), accounted_bytes
        return old

    # --- finishing ---

    def stop(self) -> None:
        """No more records; whoever sends it will close it."""
        self.is_open = False
        self.delivery.record_count = self.record_count

    def close(self) -> None:
        """No more records; compresses if it must. Calling it again does nothing."""
        self.stop()
        buffer = self.buffer
        if self.is_compressed and self._payload is None and self.record_count and buffer is not None:
            payload = compress(self.compression, memoryview(buffer)[HEADER_BYTES : self._used], self._level)
            self.compression_ratio = len(payload) / (self._used - HEADER_BYTES)
            self._payload = payload

    def seal(
        self, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
    ) -> bytes | memoryview:
        """The finished bytes. The same again while the stamp is the same; bytes already handed out never change."""
        self.close()
        assert self.buffer is not None, "a batch is sealed before its memory is released"
        sealed_as = (producer_id, producer_epoch, base_sequence, transactional)
        if self._payload is not None:
            if self._whole is None or sealed_as != self._sealed_as:
                whole = bytearray(HEADER_BYTES) + self._payload
                self._write_header(whole, len(whole), sealed_as)
                self._whole = bytes(whole)
        elif sealed_as != self._sealed_as:
            if self._sealed_as is not None and _is_lent(self.buffer):
                self.buffer = self.buffer[: self._used]
            self._write_header(self.buffer, self._used, sealed_as)
        self._sealed_as = sealed_as
        return memoryview(self.buffer)[: self._used] if self._whole is None else self._whole

    def _write_header(self, batch: bytearray, size: int, sealed_as: tuple[int, int, int, bool]) -> None:
        producer_id, producer_epoch, base_sequence, transactional = sealed_as
        attributes = int(self.compression) | (TRANSACTIONAL_BIT if transactional else 0)
        times = self._base_time_ms, self.max_timestamp_ms
        who = producer_id, producer_epoch, base_sequence
        length = size - LOG_OVERHEAD_BYTES
        HEADER.pack_into(
            batch, 0, 0, length, -1, MAGIC, 0, attributes, self.record_count - 1, *times, *who, self.record_count
        )
        with memoryview(batch) as view:
            batch[CRC_AT:ATTRIBUTES_AT] = crc32c(view[ATTRIBUTES_AT:size]).to_bytes(4, "big")

    def release(self) -> tuple[int, bytearray | None]:
        """Let the memory go: (bytes accounted, buffer); no buffer when a request still refers to it. Once only."""
        accounted_bytes, self.accounted_bytes = self.accounted_bytes, 0
        buffer, self.buffer = self.buffer, None
        self._payload = self._whole = None
        self._capacity = 0
        self.is_open = False
        return accounted_bytes, None if buffer is None or _is_lent(buffer) else buffer


def _is_lent(buffer: bytearray) -> bool:
    """Whether somebody has a view of it: then Python refuses to change its size."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False
