"""Which transactions a pass of the cleaner meets, what became of them, and when their markers may go.

1. Nothing at or above the last stable offset is cleaned, so every transaction that is met is decided: aborted if an
   index of aborted transactions has it, else committed.
2. Records of aborted transactions go at once. A marker stays as long as a batch of its transaction was met in this
   pass, even a marker that is removed in it; a later pass that meets none may give it a delete horizon, and one after
   that horizon removes it. So a reader that saw records of a transaction also finds its end.
3. A transaction reaches over segments and over groups of segments: one of these objects goes through the whole pass.
4. An aborted transaction whose marker stays because of its batches is written to the index of the new segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from ottla.records import BatchInfo, RecordBatch
from ottla.records.control import ControlType, marker_type_of_keys
from ottla.storage.index.aborted_index import AbortedTransaction


class CleanedTransactions:
    """The transactions of one walk over a log, in the order of its batches."""

    def __init__(self) -> None:
        # By first offset, and once for every segment they reach into.
        self._waiting: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._seen_committed: set[int] = set()
        self._keep: Callable[[AbortedTransaction], None] | None = None

    def add(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions of the segment that is walked next."""
        for transaction in transactions:
            heapq.heappush(self._waiting, (transaction.first_offset, transaction))

    def keep_in(self, keep: Callable[[AbortedTransaction], None]) -> None:
        """The index that gets aborted transactions whose markers stay."""
        self._keep = keep

    def is_aborted(self, batch: BatchInfo) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen_aborted.add(batch.producer_id)
            return True
        self._seen_committed.add(batch.producer_id)
        return False

    def can_discard_marker(self, batch: RecordBatch) -> bool:
        """Whether nothing of the transaction that this control batch ends was met."""
        self._begin(batch.last_offset)
        if not batch.record_count:
            return True  # a marker that was removed before
        kind = marker_type_of_keys(key for _, _, key, _, _ in batch.tuples())
        if kind == ControlType.ABORT:
            return not self._end_aborted(batch.producer_id)
        if kind == ControlType.COMMIT:
            was_seen = batch.producer_id in self._seen_committed
            self._seen_committed.discard(batch.producer_id)
            return not was_seen
        return False

    def _end_aborted(self, producer_id: int) -> bool:
        transaction = self._aborted.pop(producer_id, None)
        was_seen = producer_id in self._seen_aborted
        self._seen_aborted.discard(producer_id)
        if transaction is not None and was_seen and self._keep is not None:
            self._keep(transaction)
        return was_seen

    def _begin(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, transaction = heapq.heappop(self._waiting)
            self._aborted.setdefault(transaction.producer_id, transaction)
