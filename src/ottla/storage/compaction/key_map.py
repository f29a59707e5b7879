"""The last offset of every key of the dirty part of a log, in memory that was agreed on before.

    keys = KeyMap(128 << 20, load_factor=0.9, offsets_expected=uncleanable - first_dirty)
    read_bytes = keys.learn(chunk, transactions, start_offset)     # until the chunk ends or keys.is_full
    keys.latest_offset                                        # what is known is known up to here

1. A key costs 24 bytes, whatever its length. The table never has more slots than log.cleaner.dedupe.buffer.size pays
   for, and no more than there can be keys: a small log needs little memory.
2. When the load factor is reached the map is full and learns no more, though maybe in the middle of a batch. What it
   knows is complete up to `latest_offset`; the pass cleans by that, and the next one goes on behind it.
3. Records of aborted transactions teach nothing, neither do markers nor records without a key.
4. Every batch is proved by its CRC: a damaged one is CorruptMessage, and its log is left alone.
5. It belongs to one pass; nobody else reads it, so the native walks in it may run without the interpreter lock.
"""

from __future__ import annotations

from typing import Final, Protocol

from ottla.records import BatchInfo, RecordBatch
from ottla.records.compaction import NOT_FOUND, SLOT_BYTES
from ottla.records.layout import HEADER_BYTES
from ottla.records.log_walks import KeyTable, index_batches, index_records

SLOTS_MIN: Final = 2


class Decisions(Protocol):
    """What became of transactions: see cleaned_transactions.py."""

    def is_aborted(self, batch: BatchInfo) -> bool: ...
    def can_discard_marker(self, batch: RecordBatch) -> bool: ...


class KeyMap:
    """Keys and their last offsets, up to `latest_offset`."""

    def __init__(self, memory_bytes: int, *, load_factor: float, offsets_expected: int) -> None:
        affordable = memory_bytes // SLOT_BYTES
        slots = min(affordable, max(SLOTS_MIN, int(offsets_expected / load_factor) + 1))
        self.limit = int(slots * load_factor)
        if self.limit < 1:
            raise ValueError(
                f"{memory_bytes} bytes do not hold a single key; give log.cleaner.dedupe.buffer.size more memory"
            )
        self.table = KeyTable(slots)
        self.latest_offset = NOT_FOUND
        self.is_full = False
        self.record_count = 0

    def __len__(self) -> int:
        return len(self.table)

    @property
    def utilization(self) -> float:
        """How much of the table is used."""
        return len(self.table) / self.table.slots

    def learn(self, chunk: bytes, transactions: Decisions, start_offset: int) -> int:
        """Learn the whole batches of a chunk; returns how many bytes they had."""
        position = 0
        while True:
            found = index_batches(self.table, self.limit, chunk, position, start_offset)
            position = found.position
            self._note(found.latest_offset, found.record_count, is_full=found.is_full)
            if self.is_full or not is_whole(chunk, position):
                return position
            batch = RecordBatch(chunk, position)
            batch.check()
            if not self._learn_one(batch, transactions, start_offset):
                return position
            position += batch.size_bytes

    def _learn_one(self, batch: RecordBatch, transactions: Decisions, start_offset: int) -> bool:
        """Take one batch; False if it did not fit."""
        if batch.is_control:
            transactions.can_discard_marker(batch)
        elif not transactions.is_aborted(batch):
            found = index_records(
                self.table, self.limit, batch.record_bytes(), batch.record_count, batch.base_offset, start_offset
            )
            self._note(found.latest_offset, found.record_count, is_full=found.is_full)
        if self.is_full:
            return False
        if batch.last_offset >= start_offset:
            self.latest_offset = batch.last_offset
        return True

    def _note(self, latest_offset: int, record_count: int, *, is_full: bool) -> None:
        self.latest_offset = max(self.latest_offset, latest_offset)
        self.record_count += record_count
        self.is_full = is_full


def is_whole(chunk: bytes, position: int) -> bool:
    """Whether the batch at `position` ends within the chunk, going by its length."""
    left_bytes = len(chunk) - position
    return left_bytes >= HEADER_BYTES and BatchInfo(chunk, position).size_bytes <= left_bytes
