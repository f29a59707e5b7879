"""Message sets v0 and v1, what Kafka had before record batches. Old logs and old clients still hold them.

A set is messages one after the other:

    int64   offset
    int32   size of what follows
    uint32  CRC-32 (zlib's, not CRC-32C) of everything after it
    int8    magic, 0 or 1
    int8    attributes: bits 0-2 codec, bit 3 (v1) timestamp is the broker's append time
    int64   timestamp in ms (v1 only)
    int32   key size, -1 for null; key
    int32   value size, -1 for null; value

A compressed set is one message, the wrapper, whose value is a whole set. What is peculiar:

  - The wrapper's offset is that of its last message. In v0 the offsets inside are absolute. In v1 they are
    relative, so that a broker can assign offsets without compressing again; an offset of 0 on the wrapper means
    that nobody has assigned any yet, and the offsets inside stand.
  - When the wrapper's timestamp is the append time it replaces all timestamps inside.
  - v0 has no timestamps (we say -1), and its lz4 frames have the old header checksum, see compression.py.

Promises:

1. The CRC of every message, inner ones too, is checked. A wrapper inside a wrapper is refused.
2. A set may end in the middle of a message, because a broker cuts fetch answers by bytes: the rest is left
   unread and its size told. Inside a wrapper that is damage.
3. All wrappers of a set together decompress to at most `limit_bytes`.
4. Nothing but CorruptMessage comes out of reading.
"""

import binascii
import struct
from collections.abc import Iterable, Iterator

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records.compression import Bytes, Compression, compress, decompress

__all__ = ["LegacyMessages", "LegacyRecord", "build_message_set", "read_message_set"]

NO_TIMESTAMP = -1
CODEC_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08

_frame = struct.Struct(">qi")  # offset, size
_head = (struct.Struct(">Ibb"), struct.Struct(">Ibbq"))  # by magic: crc, magic, attributes, timestamp from v1
_int32 = struct.Struct(">i")
_crc = struct.Struct(">I")
SIZE_MIN = (_head[0].size + 8, _head[1].size + 8)  # by magic: both lengths, no key, no value


class LegacyRecord(NamedTuple):
    """One record, in the shape that records of batches v2 have."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[()] = ()


class LegacyMessages(NamedTuple):
    """The records of a message set, and how many bytes at its end were only part of a message."""

    records: list[LegacyRecord]
    partial_bytes: int


class _Message(NamedTuple):
    offset: int
    magic: int
    codec: int
    log_append_time: bool
    timestamp_ms: int
    key: memoryview | None
    value: memoryview | None


# ---- read ----


def read_message_set(buffer: Bytes, limit_bytes: int) -> LegacyMessages:
    """All records of the set in `buffer`, compressed or not."""
    view = memoryview(buffer).cast("B")
    records: list[LegacyRecord] = []
    position, room = 0, limit_bytes
    while (end := _end_of_message(view, position)) <= len(view):
        message = _read_message(view[position:end])
        if message.codec == Compression.NONE:
            records.append(_record(message))
        else:
            content = _decompress_wrapper(message, room)
            room -= len(content)
            records += _inner_records(message, memoryview(content))
        position = end
    return LegacyMessages(records, len(view) - position)


def _end_of_message(view: memoryview, position: int) -> int:
    """Where the message at `position` ends; beyond the view when only part of it is there, or nothing is left."""
    if position + _frame.size > len(view):
        return len(view) + 1
    offset, size = _frame.unpack_from(view, position)
    if size < SIZE_MIN[0]:
        raise CorruptMessage(f"the message at offset {offset} says {size} bytes; the smallest has {SIZE_MIN[0]}")
    return position + _frame.size + int(size)


def _read_message(view: memoryview) -> _Message:
    offset, size = _frame.unpack_from(view)
    body = view[_frame.size :]
    magic = body[4]
    if magic > 1:
        raise CorruptMessage(f"the message at offset {offset} has magic {magic}; a message set has 0 or 1")
    if size < SIZE_MIN[magic]:
        raise CorruptMessage(f"the message at offset {offset} says {size} bytes; v{magic} has {SIZE_MIN[magic]}")
    _check_crc(offset, body)
    attributes = body[5]
    timestamp_ms = _head[1].unpack_from(body)[3] if magic else NO_TIMESTAMP
    key, position = _read_nullable(body, _head[magic].size, offset)
    value, position = _read_nullable(body, position, offset)
    if position != len(body):
        raise CorruptMessage(f"the message at offset {offset} has {len(body) - position} bytes after its value")
    log_append_time = bool(magic and attributes & LOG_APPEND_TIME_FLAG)
    return _Message(offset, magic, attributes & CODEC_MASK, log_append_time, timestamp_ms, key, value)


def _check_crc(offset: int, body: memoryview) -> None:
    (said,) = _crc.unpack_from(body)
    found = binascii.crc32(body[4:])
    if said != found:
        raise CorruptMessage(f"the message at offset {offset} has CRC {said:08x}, its bytes give {found:08x}")


def _read_nullable(body: memoryview, position: int, offset: int) -> tuple[memoryview | None, int]:
    start = position + 4
    if start > len(body):
        raise CorruptMessage(f"the message at offset {offset} ends inside its key or value")
    (size,) = _int32.unpack_from(body, position)
    if size == -1:
        return None, start
    if not 0 <= size <= len(body) - start:
        raise CorruptMessage(
            f"the message at offset {offset} has a field of {size} bytes, {len(body) - start} are left"
        )
    return body[start : start + size], start + size


def _decompress_wrapper(wrapper: _Message, room: int) -> bytes:
    if wrapper.value is None:
        raise CorruptMessage(f"the compressed message at offset {wrapper.offset} has no value")
    if wrapper.codec > Compression.LZ4:
        raise CorruptMessage(f"the message at offset {wrapper.offset} has codec {wrapper.codec}; sets end at 3, lz4")
    return decompress(wrapper.codec, wrapper.value, room, old_lz4_header=wrapper.magic == 0)


def _inner_records(wrapper: _Message, content: memoryview) -> Iterator[LegacyRecord]:
    messages = list(_inner_messages(wrapper, content))
    if not messages:
        raise CorruptMessage(f"the compressed message at offset {wrapper.offset} holds no messages")
    base_offset = wrapper.offset - messages[-1].offset if wrapper.magic and wrapper.offset else 0
    for message in messages:
        record = _record(message, wrapper.timestamp_ms if wrapper.log_append_time else message.timestamp_ms)
        # A negative base comes from producers that put something else on the wrapper; offsets inside stand then.
        yield record._replace(offset=record.offset + base_offset) if base_offset > 0 else record


def _inner_messages(wrapper: _Message, content: memoryview) -> Iterator[_Message]:
    position = 0
    while (end := _end_of_message(content, position)) <= len(content):
        message = _read_message(content[position:end])
        if message.codec != Compression.NONE:
            raise CorruptMessage(f"the compressed message at offset {wrapper.offset} holds another compressed one")
        if message.magic != wrapper.magic:
            raise CorruptMessage(
                f"the v{wrapper.magic} message at offset {wrapper.offset} holds a v{message.magic} one"
            )
        yield message
        position = end
    if position != len(content):
        raise CorruptMessage(f"the compressed message at offset {wrapper.offset} ends inside an inner message")


def _record(message: _Message, timestamp_ms: int | None = None) -> LegacyRecord:
    return LegacyRecord(
        message.offset,
        message.timestamp_ms if timestamp_ms is None else timestamp_ms,
        None if message.key is None else bytes(message.key),
        None if message.value is None else bytes(message.value),
    )


# ---- write ----


def build_message_set(
    magic: int,
    records: Iterable[LegacyRecord],
    compression: Compression = Compression.NONE,
    level: int | None = None,
    *,
    log_append_time_ms: int | None = None,
) -> bytes:
    """The message set of `records`; headers are left out, because the format has no place for them.

    With `log_append_time_ms` (v1) it is a set as a broker stores it that sets timestamps itself.
    """
    messages = list(records)
    _check_buildable(magic, compression, log_append_time_ms)
    if not messages:
        return b""
    if compression is Compression.NONE:
        return b"".join(_encode(magic, 0, message, log_append_time_ms) for message in messages)
    base_offset = messages[0].offset if magic else 0
    inner = (message._replace(offset=message.offset - base_offset) for message in messages)
    content = b"".join(_encode(magic, 0, message, None) for message in inner)
    value = compress(compression, content, level, old_lz4_header=magic == 0)
    latest_ms = max(message.timestamp_ms for message in messages)
    wrapper = LegacyRecord(messages[-1].offset, latest_ms, None, value)
    return _encode(magic, compression, wrapper, log_append_time_ms)


def _check_buildable(magic: int, compression: Compression, log_append_time_ms: int | None) -> None:
    if magic not in (0, 1):
        raise ValueError(f"message sets have magic 0 or 1, not {magic}; newer records go into a record batch")
    if compression > Compression.LZ4:
        raise ValueError(f"message sets cannot be compressed with {compression.label}; use gzip, snappy or lz4")
    if magic == 0 and log_append_time_ms is not None:
        raise ValueError("a v0 message set has no timestamps, so it cannot hold a log append time")


def _encode(magic: int, codec: int, record: LegacyRecord, log_append_time_ms: int | None) -> bytes:
    flag = 0 if log_append_time_ms is None else LOG_APPEND_TIME_FLAG
    timestamp_ms = record.timestamp_ms if log_append_time_ms is None else log_append_time_ms
    timestamp = struct.pack(">q", timestamp_ms) if magic else b""
    covered = bytes((magic, codec | flag)) + timestamp + _nullable(record.key) + _nullable(record.value)
    return _frame.pack(record.offset, len(covered) + _crc.size) + _crc.pack(binascii.crc32(covered)) + covered


def _nullable(data: bytes | None) -> bytes:
    return _int32.pack(-1) if data is None else _int32.pack(len(data)) + data
