"""RecordStream: many batches in one buffer, as Fetch answers carry them. The readable twin.

A broker answers a fetch with bytes of its file up to a limit, so the last batch may be cut off; it will come again,
whole, with the next fetch. Logs that are older than format v2 also hold message sets v0 and v1, before the batches.

1. Iterating gives a RecordBatch per batch and a MessageSet per run of old messages, in order.
2. A cut-off end is not an error: it is left out, and `partial_bytes` says how long it is.
3. A size that no batch can have, or an unknown magic, is CorruptMessage, after everything before it was given.
4. Batches are not checked: that is for whoever reads them, see RecordBatch.check().
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ottla.errors import CorruptMessage
from ottla.records.batch import Record, RecordBatch
from ottla.records.header import Buffer, view_of
from ottla.records.layout import (
    DECOMPRESSED_LIMIT_BYTES,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAGIC_KNOWN_BYTES,
    NO_PRODUCER_ID,
    wrapped_int64,
)
from ottla.records.legacy import read_message_set

# CRC, magic, attributes, two lengths; v1 has a timestamp besides.
MESSAGE_BYTES_MIN = {0: LOG_OVERHEAD_BYTES + 14, 1: LOG_OVERHEAD_BYTES + 22, MAGIC: HEADER_BYTES}


class MessageSet:
    """A run of messages in format v0 or v1, with the few facts that isolation and positions ask every batch for."""

    is_control = False
    is_transactional = False
    producer_id = NO_PRODUCER_ID

    def __init__(self, view: memoryview, position: int, size_bytes: int, last_offset: int) -> None:
        self._view = view[position : position + size_bytes]
        self.position = position
        self.size_bytes = size_bytes
        self.last_offset = last_offset
        self.magic = self._view[MAGIC_AT]

    @property
    def next_offset(self) -> int:
        return wrapped_int64(self.last_offset + 1)

    def records(self, limit_bytes: int = DECOMPRESSED_LIMIT_BYTES) -> list[Record]:
        """All messages as records; every one is checked against its CRC on the way."""
        return [Record(*message) for message in read_message_set(self._view, limit_bytes).records]

    def check(self) -> None:
        """Old messages are checked one by one as they are read; there is nothing to prove before."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())


class RecordStream:
    """What a fetch answer holds for one partition."""

    batch_type: type[RecordBatch] = RecordBatch

    def __init__(self, buffer: Buffer) -> None:
        self._view = view_of(buffer)

    def __iter__(self) -> Iterator[RecordBatch | MessageSet]:
        run_start: int | None = None
        run_end = last_offset = 0
        damage: CorruptMessage | None = None
        try:
            for position, size_bytes, magic in self._frames():
                if magic != MAGIC:
                    run_start = position if run_start is None else run_start
                    (last_offset,) = struct.unpack_from(">q", self._view, position)
                    run_end = position + size_bytes
                    continue
                if run_start is not None:
                    yield MessageSet(self._view, run_start, position - run_start, last_offset)
                    run_start = None
                yield self.batch_type(self._view, position)
        except CorruptMessage as error:
            damage = error
        if run_start is not None:
            yield MessageSet(self._view, run_start, run_end - run_start, last_offset)
        if damage is not None:
            raise damage

    @property
    def partial_bytes(self) -> int:
        """How many bytes at the end belong to a batch that is not all there."""
        end = 0
        for position, size_bytes, _ in self._frames():
            end = position + size_bytes
        return len(self._view) - end

    def _frames(self) -> Iterator[tuple[int, int, int]]:
        """Position, size and magic of everything that is whole."""
        position = 0
        while len(self._view) - position >= MAGIC_KNOWN_BYTES:
            magic = self._view[position + MAGIC_AT]
            (length,) = struct.unpack_from(">i", self._view, position + LENGTH_AT)
            size_bytes = LOG_OVERHEAD_BYTES + length
            if magic not in MESSAGE_BYTES_MIN:
                raise CorruptMessage(f"the bytes at position {position} have magic {magic}; known are 0, 1 and 2")
            if size_bytes < MESSAGE_BYTES_MIN[magic]:
                raise CorruptMessage(f"the batch at position {position} claims {size_bytes} bytes, too few for any")
            if size_bytes > len(self._view) - position:
                return
            yield position, size_bytes, magic
            position += size_bytes
