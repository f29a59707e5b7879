"""The two walks over records that compaction makes: learn the last offset of every key, then keep what is still true.

The readable twin of _compaction.pyx. A table of keys has a fixed number of slots; a slot is 24 bytes:

    16 bytes MD5 of the key | int64 offset + 1, big-endian; 0 is an empty slot

1. `index_batches` and `filter_batches` take the batches of a chunk that are plain (uncompressed, no transaction, no
   marker), one after the other, and stop before the first that is not plain, not whole or not sound. Whoever calls them
   decides about that one, or proves that it is damaged, and calls again behind it.
2. A record stays when it lies beyond what the table knows, or has a key, is the last one of that key, and is no
   tombstone whose delete horizon is over. A record without a key goes: a compacted topic has no use for it.
3. What stays keeps its offset, and a batch its base offset, last offset, producer, epoch, sequence, leader epoch, codec
   and kind of time. A batch that stays whole stays byte for byte; of one that does not, the base timestamp is that of
   its first record and the latest timestamp that of its records, or the append time.
4. A batch with a tombstone gets a delete horizon (KIP-534): its base timestamp says until when tombstones stay.
5. A batch that lost all records goes, unless its last offset is among `kept_offsets`: then its header stays, because a
   producer's sequence or the end of what was cleaned is told by it.
6. The table compares hashes only, as Kafka's does. Nobody can choose a key that collides with a key of somebody else.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records.checksum import crc32c
from ottla.records.header import BatchInfo, Buffer, check_shape, check_sum, view_of
from ottla.records.layout import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    wrapped_int64,
)
from ottla.records.varint import decode_varint, decode_varlong, encode_varint, encode_varlong

SLOT_BYTES: Final = 24
HASH_BYTES: Final = 16
SPECIAL_BITS: Final = COMPRESSION_MASK | TRANSACTIONAL_BIT | CONTROL_BIT
KNOWN_BITS: Final = SPECIAL_BITS | LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT
NOT_FOUND: Final = -1

_slot: Final = struct.Struct(f">{HASH_BYTES}sQ")


class KeyTable:
    """Keys and offsets in memory that is taken once."""

    def __init__(self, slots: int) -> None:
        if slots < 1:
            raise ValueError(f"a table of keys needs at least one slot, not {slots}")
        self.slots = slots
        self._count = 0
        self._memory = bytearray(slots * SLOT_BYTES)

    def __len__(self) -> int:
        return self._count

    def put(self, key: Buffer, offset: int) -> None:
        """Remember an offset for a key, in the place of the one it had."""
        digest = _digest(key)
        at = self._find(digest)
        if at < 0:
            raise ValueError(f"the table of {self.slots} keys is full")
        self._count += not self._is_used(at)
        _slot.pack_into(self._memory, at, digest, offset + 1)

    def get(self, key: Buffer) -> int:
        """The offset of a key; -1 if it has none."""
        at = self._find(_digest(key))
        return NOT_FOUND if at < 0 else int(_slot.unpack_from(self._memory, at)[1]) - 1

    def _find(self, digest: bytes) -> int:
        """Where the key is or would be; -1 if the table is full of others."""
        slot = int.from_bytes(digest[:8], "big") % self.slots
        for _ in range(self.slots):
            at = slot * SLOT_BYTES
            if not self._is_used(at) or self._memory[at : at + HASH_BYTES] == digest:
                return at
            slot = (slot + 1) % self.slots
        return -1

    def _is_used(self, at: int) -> bool:
        return any(self._memory[at + HASH_BYTES : at + SLOT_BYTES])


def _digest(key: Buffer) -> bytes:
    import hashlib  # only where logs are compacted

    return hashlib.md5(key, usedforsecurity=False).digest()


# --- learning the last offset of every key ---------------------------------------------------------------------------


class Indexed(NamedTuple):
    """How far the keys are known: up to `latest_offset`, -1 if nothing new is. `position` is behind the last batch."""

    position: int
    latest_offset: int
    record_count: int
    is_full: bool


def index_records(
    table: KeyTable, limit: int, records: Buffer, record_count: int, base_offset: int, start_offset: int
) -> Indexed:
    """Take the decompressed records of one batch from `start_offset` on, until the table has `limit` keys."""
    latest_offset = NOT_FOUND
    for index, record in enumerate(_walk(records, record_count)):
        offset = wrapped_int64(base_offset + record.offset_delta)
        if record.key is not None and offset >= start_offset:
            if len(table) >= limit:
                return Indexed(0, latest_offset, index, True)
            table.put(record.key, offset)
            latest_offset = offset
    return Indexed(0, latest_offset, record_count, False)


def index_batches(table: KeyTable, limit: int, chunk: Buffer, position: int, start_offset: int) -> Indexed:
    """Take the plain batches of a chunk from `position` on."""
    latest_offset, records = NOT_FOUND, 0
    view = view_of(chunk)
    while (info := _plain_batch(view, position)) is not None:
        content = view[position + HEADER_BYTES : position + info.size_bytes]
        try:
            found = index_records(table, limit, content, info.record_count, info.base_offset, start_offset)
        except CorruptMessage:
            break
        records += found.record_count
        latest_offset = max(latest_offset, found.latest_offset)
        if found.is_full:
            return Indexed(position, latest_offset, records, True)
        if info.last_offset >= start_offset:
            latest_offset = info.last_offset
        position += info.size_bytes
    return Indexed(position, latest_offset, records, False)


# --- keeping what is still true --------------------------------------------------------------------------------------


class KeepRules(NamedTuple):
    """What a copy goes by. The table knows all keys up to `latest_offset`; `kept_offsets` is sorted (int64)."""

    latest_offset: int
    now_ms: int
    new_horizon_ms: int
    kept_offsets: array[int]


class KeptRecords(NamedTuple):
    """What stays of a batch's records. `is_original` says that nothing changes at all, then the rest means nothing."""

    is_original: bool
    record_count: int
    records: bytes
    base_timestamp_ms: int
    max_timestamp_ms: int
    has_horizon: bool


class Filtered(NamedTuple):
    """The batches that stay, and how far the chunk was read."""

    position: int
    batches: bytes
    records_read: int
    records_kept: int


def filter_records(table: KeyTable, rules: KeepRules, header: Buffer, position: int, records: Buffer) -> KeptRecords:
    """What stays of the decompressed records of the batch whose header is at `position`."""
    info = BatchInfo(header, position)
    is_over = info.has_delete_horizon and info.base_timestamp_ms <= rules.now_ms
    kept = [
        record
        for record in _walk(records, info.record_count)
        if _stays(table, rules, wrapped_int64(info.base_offset + record.offset_delta), record, is_over)
    ]
    needs_horizon = not info.has_delete_horizon and any(not record.has_value for record in kept)
    if len(kept) == info.record_count and not needs_horizon:
        return KeptRecords(True, len(kept), b"", 0, 0, False)
    return _rebased(info, kept, rules.new_horizon_ms if needs_horizon else None)


def _stays(table: KeyTable, rules: KeepRules, offset: int, record: WalkedRecord, is_over: bool) -> bool:
    if offset > rules.latest_offset:
        return True
    if record.key is None:
        return False
    return offset >= table.get(record.key) and (record.has_value or not is_over)


def _rebased(info: BatchInfo, kept: list[WalkedRecord], new_horizon_ms: int | None) -> KeptRecords:
    """The records with their times told from the new base timestamp."""
    has_append_time = bool(info.attributes & LOG_APPEND_TIME_BIT)
    times = [
        info.max_timestamp_ms if has_append_time else wrapped_int64(info.base_timestamp_ms + record.timestamp_delta)
        for record in kept
    ]
    base_ms = times[0] if times else NO_TIMESTAMP
    if new_horizon_ms is not None:
        base_ms = new_horizon_ms
    elif info.has_delete_horizon:
        base_ms = info.base_timestamp_ms
    content = b"".join(_record(record, time_ms - base_ms) for record, time_ms in zip(kept, times, strict=True))
    latest_ms = info.max_timestamp_ms if has_append_time else max([NO_TIMESTAMP, *times])
    has_horizon = new_horizon_ms is not None or info.has_delete_horizon
    return KeptRecords(False, len(kept), content, base_ms, latest_ms, has_horizon)


def _record(record: WalkedRecord, timestamp_delta: int) -> bytes:
    body = b"\x00" + encode_varlong(wrapped_int64(timestamp_delta)) + record.rest
    return encode_varint(len(body)) + body


def filter_batches(table: KeyTable, rules: KeepRules, chunk: Buffer, position: int) -> Filtered:
    """Copy what stays of the plain batches of a chunk from `position` on."""
    output: list[bytes] = []
    read = stayed = 0
    view = view_of(chunk)
    while (info := _plain_batch(view, position)) is not None:
        end = position + info.size_bytes
        try:
            kept = filter_records(table, rules, view, position, view[position + HEADER_BYTES : end])
        except CorruptMessage:
            break
        if kept.is_original and kept.record_count:
            output.append(bytes(view[position:end]))
        elif kept.record_count:
            output.append(sealed_batch(view, position, kept, kept.records))
        elif is_listed(rules.kept_offsets, info.last_offset):
            output.append(empty_batch(view, position))
        read += info.record_count
        stayed += kept.record_count
        position = end
    return Filtered(position, b"".join(output), read, stayed)


def is_listed(offsets: array[int], offset: int) -> bool:
    """Whether a sorted array has an offset."""
    at = bisect_left(offsets, offset)
    return at < len(offsets) and offsets[at] == offset


def sealed_batch(header: Buffer, position: int, kept: KeptRecords, payload: bytes) -> bytes:
    """The batch again, with what stayed of its records; `payload` is them, compressed if the batch is."""
    info = BatchInfo(header, position)
    attributes = info.attributes & KNOWN_BITS & ~DELETE_HORIZON_BIT
    if kept.has_horizon:
        attributes |= DELETE_HORIZON_BIT
    return _sealed(info, attributes, kept.base_timestamp_ms, kept.max_timestamp_ms, kept.record_count, payload)


def empty_batch(header: Buffer, position: int) -> bytes:
    """The header of a batch without its records: it still tells whose it was and where it ended."""
    info = BatchInfo(header, position)
    attributes = info.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    return _sealed(info, attributes, NO_TIMESTAMP, info.max_timestamp_ms, 0, b"")


def _sealed(
    info: BatchInfo, attributes: int, base_timestamp_ms: int, max_timestamp_ms: int, count: int, payload: bytes
) -> bytes:
    def packed(crc: int) -> bytes:
        return HEADER.pack(
            *(info.base_offset, HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload), info.leader_epoch, info.magic, crc),
            *(attributes, info.last_offset_delta, base_timestamp_ms, max_timestamp_ms),
            *(info.producer_id, info.producer_epoch, info.base_sequence, count),
        )

    return packed(crc32c(payload, crc32c(packed(0)[ATTRIBUTES_AT:]))) + payload


# --- the walk --------------------------------------------------------------------------------------------------------


class WalkedRecord(NamedTuple):
    """What compaction must know of a record; `rest` are its bytes from the offset delta on, carried as they are."""

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool
    rest: bytes


def _walk(records: Buffer, record_count: int) -> Iterator[WalkedRecord]:
    data = bytes(records)
    position = 0
    for index in range(record_count):
        try:
            length, start = decode_varint(data, position)
            position = _checked_end(data, start, length, at_least=1)
            record = _read_record(data[start:position])
        except CorruptMessage:
            raise CorruptMessage(f"record {index} of the batch is broken") from None
        yield record
    if position != len(data):
        raise CorruptMessage(f"{len(data) - position} bytes are left after the {record_count} records of the batch")


def _read_record(body: bytes) -> WalkedRecord:
    timestamp_delta, rest_at = decode_varlong(body, 1)
    offset_delta, position = decode_varint(body, rest_at)
    key_length, start = decode_varint(body, position)
    position = _checked_end(body, start, key_length, at_least=-1)
    key = None if key_length < 0 else body[start:position]
    value_length, start = decode_varint(body, position)
    _checked_end(body, start, value_length, at_least=-1)
    return WalkedRecord(timestamp_delta, offset_delta, key, value_length >= 0, body[rest_at:])


def _checked_end(data: bytes, start: int, length: int, *, at_least: int) -> int:
    """Where so many bytes end; -1 is null and takes none."""
    if not at_least <= length <= len(data) - start:
        raise CorruptMessage(f"{length} bytes are claimed, {len(data) - start} are there")
    return start + max(0, length)


def _plain_batch(view: memoryview, position: int) -> BatchInfo | None:
    """The batch at `position`, if it is whole, sound and plain."""
    if len(view) - position < HEADER_BYTES:
        return None
    info = BatchInfo(view, position)
    if info.attributes & SPECIAL_BITS:
        return None
    try:
        check_shape(info, len(view) - position)
        check_sum(view, info)
    except CorruptMessage:
        return None
    return info
