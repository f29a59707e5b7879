"""RecordBatch: one batch inside a buffer, and the records in it. The readable twin of the reader.

1. Looking at a header copies nothing; records() copies keys and values, so they outlive the buffer.
2. check() proves the CRC, records() does not: a consumer calls both, a broker that keeps the bytes calls check().
3. Reading is strict and safe without check(): whatever the bytes are, the answer is records or CorruptMessage, and
   no claimed length or count takes memory that the bytes themselves (or `limit_bytes`, when compressed) do not justify.
4. With log-append time every record carries the batch's max timestamp, whatever its own delta says.
5. Header keys are text. Bytes in them that are not UTF-8 are replaced, as Java does: one odd record must not
   block a partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records.compression import Compression, decompress
from ottla.records.header import BatchInfo, Buffer, check_count, check_shape, check_sum, view_of
from ottla.records.layout import (
    DECOMPRESSED_LIMIT_BYTES,
    HEADER_BYTES,
    HEADER_ENTRY_BYTES_MIN,
    TimestampType,
    wrapped_int64,
)
from ottla.records.varint import decode_varint, decode_varlong

Headers = tuple[tuple[str, bytes | None], ...]
RecordTuple = tuple[int, int, bytes | None, bytes | None, Headers]


class Record(NamedTuple):
    """One record as a reader sees it: absolute offset, absolute time, owned bytes."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordBatch(BatchInfo):
    """The batch that starts at `position` of `buffer`."""

    __slots__ = ("_view",)

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        super().__init__(buffer, position)
        self._view = view_of(buffer)

    def check(self) -> None:
        """Raise CorruptMessage, saying what and where, unless size, magic, counts, codec and CRC are right."""
        check_shape(self, len(self._view) - self.position)
        check_sum(self._view, self)

    def records(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> list[Record]:
        """All records; a compressed batch may grow to `limit_bytes`."""
        return list(map(Record._make, self.walk(limit_bytes)))

    def tuples(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> list[RecordTuple]:
        """The same as plain (offset, timestamp_ms, key, value, headers)."""
        return list(self.walk(limit_bytes))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    def walk(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> Iterator[RecordTuple]:
        """The same, one by one: a damaged record raises when its turn comes."""
        data = self.record_bytes(limit_bytes)
        base_offset, base_timestamp_ms = self.base_offset, self.base_timestamp_ms
        append_time_ms = self.max_timestamp_ms if self.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        position = 0
        for index in range(self.record_count):
            try:
                body, position = _next_body(data, position)
                timestamp_delta, offset_delta, key, value, headers = _read_body(body)
            except CorruptMessage as error:
                where = f"record {index} of the batch at position {self.position}"
                raise CorruptMessage(f"{where}: {error.detail}") from None
            timestamp_ms = base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms
            yield wrapped_int64(base_offset + offset_delta), wrapped_int64(timestamp_ms), key, value, headers
        if position != len(data):
            raise CorruptMessage(
                f"{len(data) - position} bytes are left after the {self.record_count} records "
                f"of the batch at position {self.position}"
            )

    def record_bytes(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> bytes:
        """The bytes of the records, decompressed, after the header was found sound."""
        check_shape(self, len(self._view) - self.position)
        payload = self._view[self.position + HEADER_BYTES : self.position + self.size_bytes]
        if self.compression is Compression.NONE:
            return bytes(payload)
        data = bytes(decompress(self.compression, payload, limit_bytes))
        check_count(self.record_count, len(data), self.position)
        return data


def _next_body(data: bytes, position: int) -> tuple[bytes, int]:
    """One record without its length: what it holds can then never reach into its neighbour."""
    length, start = decode_varint(data, position)
    if length < 0 or length > len(data) - start:
        raise CorruptMessage(f"it claims {length} bytes, {len(data) - start} are there")
    return data[start : start + length], start + length


def _read_body(body: bytes) -> tuple[int, int, bytes | None, bytes | None, Headers]:
    """Timestamp delta, offset delta, key, value and headers. Byte 0, the attributes, means nothing yet."""
    timestamp_delta, position = decode_varlong(body, 1)
    offset_delta, position = decode_varint(body, position)
    key, position = _read_bytes(body, position)
    value, position = _read_bytes(body, position)
    headers, position = _read_headers(body, position)
    if position != len(body):
        raise CorruptMessage(f"{len(body) - position} bytes are left after its headers")
    return timestamp_delta, offset_delta, key, value, headers


def _read_bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = decode_varint(body, position)
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(body):
        raise CorruptMessage(f"a key or value claims {length} bytes, {len(body) - start} are there")
    return body[start:end], end


def _read_headers(body: bytes, position: int) -> tuple[Headers, int]:
    count, position = decode_varint(body, position)
    if not count:
        return (), position
    if count < 0 or count * HEADER_ENTRY_BYTES_MIN > len(body) - position:
        raise CorruptMessage(f"it claims {count} headers in {len(body) - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(body, position)
        if key is None:
            raise CorruptMessage("a header has no key")
        value, position = _read_bytes(body, position)
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position
