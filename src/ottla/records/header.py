"""The headers of batches: read them, check them, walk over many of them, edit the few facts a broker may edit.

Nothing here looks at a record, and no object is made per record: this is what the produce path of a broker needs.

1. A BatchInfo is read once; later edits of the buffer do not change it.
2. scan() is strict: every byte between start and end belongs to a whole and sound batch, or it raises CorruptMessage
   that says what is wrong and at which position.
3. assign_offsets() writes outside the CRC. set_append_time() writes under it, and so does the sum again.
"""

from __future__ import annotations

import struct

from ottla.errors import CorruptMessage
from ottla.records.checksum import crc32c
from ottla.records.compression import Compression
from ottla.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAX_TIMESTAMP_AT,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    TimestampType,
    wrapped_int64,
    wrapped_sequence,
)

Buffer = bytes | bytearray | memoryview


def view_of(buffer: Buffer) -> memoryview:
    """The buffer as single bytes, without a copy."""
    view = memoryview(buffer)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


class BatchInfo:
    """What the header of one batch says, and where that batch stands in its buffer."""

    __slots__ = ("_facts", "position")

    position: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        view = view_of(buffer)
        if position < 0 or len(view) - position < HEADER_BYTES:
            raise CorruptMessage(
                f"a batch header of {HEADER_BYTES} bytes cannot start at position {position} of {len(view)} bytes"
            )
        self.position = position
        self._facts: tuple[int, ...] = HEADER.unpack_from(view, position)

    @property
    def base_offset(self) -> int:
        return self._facts[0]

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self._facts[1]

    @property
    def leader_epoch(self) -> int:
        return self._facts[2]

    @property
    def magic(self) -> int:
        return self._facts[3]

    @property
    def crc(self) -> int:
        return self._facts[4]

    @property
    def attributes(self) -> int:
        return self._facts[5]

    @property
    def last_offset_delta(self) -> int:
        return self._facts[6]

    @property
    def base_timestamp_ms(self) -> int:
        return self._facts[7]

    @property
    def max_timestamp_ms(self) -> int:
        return self._facts[8]

    @property
    def producer_id(self) -> int:
        return self._facts[9]

    @property
    def producer_epoch(self) -> int:
        return self._facts[10]

    @property
    def base_sequence(self) -> int:
        return self._facts[11]

    @property
    def record_count(self) -> int:
        return self._facts[12]

    @property
    def compression(self) -> Compression:
        codec = self.attributes & COMPRESSION_MASK
        if codec > Compression.ZSTD:
            raise CorruptMessage(f"the batch at position {self.position} names codec {codec}, which does not exist")
        return Compression(codec)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_offset(self) -> int:
        return wrapped_int64(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        return wrapped_int64(self.last_offset + 1)

    @property
    def last_sequence(self) -> int:
        return wrapped_sequence(self.base_sequence, self.last_offset_delta)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BatchInfo):
            return NotImplemented
        return (self.position, self._facts) == (other.position, other._facts)

    def __hash__(self) -> int:
        return hash((self.position, self._facts))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(position={self.position}, base_offset={self.base_offset}, "
            f"last_offset={self.last_offset}, size_bytes={self.size_bytes}, record_count={self.record_count})"
        )


def check_shape(info: BatchInfo, available_bytes: int) -> None:
    """Everything a header can say wrong that is seen without reading the records."""
    at = f"the batch at position {info.position}"
    if info.magic != MAGIC:
        raise CorruptMessage(f"{at} has magic {info.magic}, expected {MAGIC}")
    if info.size_bytes < HEADER_BYTES:
        raise CorruptMessage(f"{at} claims {info.size_bytes} bytes, its header alone takes {HEADER_BYTES}")
    if info.size_bytes > available_bytes:
        raise CorruptMessage(f"{at} claims {info.size_bytes} bytes, only {available_bytes} are there")
    if info.record_count < 0 or info.last_offset_delta < 0 or info.record_count > info.last_offset_delta + 1:
        raise CorruptMessage(
            f"{at} claims {info.record_count} records and a last offset delta of {info.last_offset_delta}"
        )
    if info.compression is Compression.NONE:
        check_count(info.record_count, info.size_bytes - HEADER_BYTES, info.position)


def check_count(record_count: int, record_bytes: int, position: int) -> None:
    """A claimed count must be paid for in bytes before anybody makes room for it."""
    if record_count * RECORD_BYTES_MIN > record_bytes:
        raise CorruptMessage(
            f"the batch at position {position} claims {record_count} records in {record_bytes} bytes, "
            f"a record takes at least {RECORD_BYTES_MIN}"
        )


def check_sum(view: memoryview, info: BatchInfo) -> None:
    """The sum over everything behind it. The shape must have been checked before."""
    found = crc32c(view[info.position + ATTRIBUTES_AT : info.position + info.size_bytes])
    if found != info.crc:
        raise CorruptMessage(
            f"the batch at position {info.position} says its CRC is {info.crc:#010x}, its bytes give {found:#010x}"
        )


def scan(buffer: Buffer, position: int = 0, end: int | None = None, check_crc: bool = True) -> list[BatchInfo]:
    """The headers of all batches between `position` and `end`, each checked."""
    view = view_of(buffer)
    end = len(view) if end is None else end
    if not 0 <= position <= end <= len(view):
        raise ValueError(f"cannot scan from {position} to {end} in {len(view)} bytes")
    view = view[:end]
    found: list[BatchInfo] = []
    while position < end:
        info = BatchInfo(view, position)
        check_shape(info, end - position)
        if check_crc:
            check_sum(view, info)
        found.append(info)
        position += info.size_bytes
    return found


def assign_offsets(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its place in the log. The CRC does not cover these two."""
    view, _ = _whole_batch(buffer, position)
    struct.pack_into(">q", view, position, base_offset)
    struct.pack_into(">i", view, position + LEADER_EPOCH_AT, leader_epoch)


def set_append_time(buffer: bytearray | memoryview, position: int, log_append_time_ms: int) -> None:
    """Let every record of the batch at `position` carry the broker's time instead of its producer's."""
    view, info = _whole_batch(buffer, position)
    struct.pack_into(">h", view, position + ATTRIBUTES_AT, info.attributes | LOG_APPEND_TIME_BIT)
    struct.pack_into(">q", view, position + MAX_TIMESTAMP_AT, log_append_time_ms)
    crc = crc32c(view[position + ATTRIBUTES_AT : position + info.size_bytes])
    struct.pack_into(">I", view, position + CRC_AT, crc)


def _whole_batch(buffer: bytearray | memoryview, position: int) -> tuple[memoryview, BatchInfo]:
    view = view_of(buffer)
    if view.readonly:
        raise TypeError("a batch can only be edited in a writable buffer such as bytearray")
    info = BatchInfo(view, position)
    check_shape(info, len(view) - position)
    return view, info
