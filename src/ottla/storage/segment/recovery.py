"""What is done to a segment that cannot be trusted as it is.

`SegmentRecovery` is for a segment that may have been written when the power went: every batch is proved, the first that
is not sound and all behind it are cut off, and all indexes are built again. `rebuild_indexes` is for a segment whose
records are in order and whose index is not: it reads headers only and cuts nothing.

1. Both go in small steps, so that the caller can do other work in between.
2. Batches go up to the caller, chunk by chunk, to replay producers, transactions and leader epochs.
3. Doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.records import BatchInfo
from ottla.storage.index.aborted_index import AbortedIndex
from ottla.storage.segment.indexes import SegmentIndexes
from ottla.storage.segment.records_file import RecordsFile, SoundBatches

REBUILD_STEP_BATCHES: Final = 1000


class SegmentRecovery:
    """A recovery on its way: iterate it to the end, replaying each list of batches, then ask what came of it.

    Control batches come as RecordBatch, so that their marker can be read. The aborted index is emptied at the start;
    the replay of the transactions fills it again.
    """

    def __init__(self, records: RecordsFile, indexes: SegmentIndexes, aborted: AbortedIndex, base_offset: int) -> None:
        self.truncated_bytes = 0
        self.damage: str | None = None
        self.next_offset = base_offset
        self._records = records
        self._indexes = indexes
        self._aborted = aborted
        self._base_offset = base_offset

    def __iter__(self) -> Iterator[list[BatchInfo]]:
        self._indexes.forget()
        self._aborted.reset()
        sound = SoundBatches(self._records, self._base_offset)
        position = 0
        for batches in sound:
            position = self._indexes.note(batches, position)
            self._indexes.write_pending()
            self.next_offset = sound.next_offset
            yield batches
        self.damage = sound.damage
        if sound.valid_bytes < self._records.size_bytes:  # an untouched file keeps its time, which retention may go by
            self.truncated_bytes = self._records.truncate(sound.valid_bytes)
        self._indexes.complete()


def rebuild_indexes(records: RecordsFile, indexes: SegmentIndexes) -> Iterator[int]:
    """Rebuild both sparse indexes from the headers; returns the position reached after every step."""
    indexes.forget()
    for number, (position, batch) in enumerate(records.headers(), start=1):
        indexes.note((batch,), position)
        if number % REBUILD_STEP_BATCHES == 0:
            indexes.write_pending()
            yield position
    indexes.complete()
