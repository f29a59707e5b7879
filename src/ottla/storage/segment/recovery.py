"""What is done to a segment that cannot be trusted as it is.

`SegmentRecovery` is for a segment that may have been written when the power went: every batch is proved, the first that
is not sound and all behind it are cut off, and all indexes are built again. What is not sound below `synced_up_to` was
not torn by the crash, it rotted later: it stays where it is (damage.py), with the acknowledged records behind it.
`rebuild_indexes` is for a segment whose records are in order and whose index is not: it reads headers only and cuts
nothing.

1. Both go in small steps, so that the caller can do other work in between.
2. Batches go up to the caller, chunk by chunk, to replay producers, transactions and leader epochs.
3. Doing it again changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ottla.errors import CorruptMessage
from ottla.records import BatchInfo
from ottla.storage.index.aborted_index import AbortedIndex
from ottla.storage.segment.damage import Damage, SegmentVerification
from ottla.storage.segment.indexes import SegmentIndexes
from ottla.storage.segment.records_file import RecordsFile

REBUILD_STEP_BATCHES: Final = 1000

logger = logging.getLogger(__name__)


class SegmentRecovery:
    """A recovery on its way: iterate it to the end, replaying each list of batches, then ask what came of it.

    Control batches come as RecordBatch, so that their marker can be read. The aborted index is emptied at the start;
    the replay of the transactions fills it again.
    """

    def __init__(
        self,
        records: RecordsFile,
        indexes: SegmentIndexes,
        aborted: AbortedIndex,
        base_offset: int,
        *,
        synced_up_to: int,
        end_offset: int,
        has_gaps: bool,
    ) -> None:
        self.truncated_bytes = 0
        self.torn: str | None = None
        self.damages: list[Damage] = []
        self.next_offset = base_offset
        self._records = records
        self._indexes = indexes
        self._aborted = aborted
        self._base_offset = base_offset
        self._synced_up_to = synced_up_to
        self._end_offset = end_offset
        self._has_gaps = has_gaps

    def __iter__(self) -> Iterator[list[BatchInfo]]:
        entries = self._indexes.offsets.entries() if self._synced_up_to > self._base_offset else []
        self._indexes.forget()
        self._aborted.reset()
        verification = SegmentVerification(
            self._records,
            entries,
            self._base_offset,
            end_offset=self._end_offset,
            has_gaps=self._has_gaps,
            synced_up_to=self._synced_up_to,
        )
        for batches in verification:
            self._indexes.note(batches, verification.position)
            self._indexes.write_pending()
            self.next_offset = batches[-1].next_offset
            yield batches
        self.torn, self.damages, self.next_offset = verification.torn, verification.damages, verification.next_offset
        end_position = verification.position
        if end_position < self._records.size_bytes:  # an untouched file keeps its time, which retention may go by
            self.truncated_bytes = self._records.truncate(end_position)
        self._indexes.complete()


def rebuild_indexes(records: RecordsFile, indexes: SegmentIndexes) -> Iterator[int]:
    """Rebuild both sparse indexes from the headers; returns the position reached after every step. It ends where no
    header follows, and a batch whose offset goes back gets no entry: what is damaged has none."""
    indexes.forget()
    next_offset = indexes.offsets.base_offset
    try:
        for number, (position, batch) in enumerate(records.headers(), start=1):
            if batch.last_offset >= next_offset:
                indexes.note((batch,), position)
                next_offset = batch.next_offset
            if number % REBUILD_STEP_BATCHES == 0:
                indexes.write_pending()
                yield position
    except CorruptMessage as error:
        logger.error("the indexes of %s end at offset %d: %s", records.path, next_offset, error)
    indexes.complete()
