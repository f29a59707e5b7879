"""Changes to batches of records, and the image that readers of these batches will have: what every writer of a metadata
log does, a single broker's store and the controller of a quorum.

1. A change is made into records, these are read as any reader of the log reads them, and what comes out is the image.
   So what a writer has and what a reader has afterwards cannot differ.
2. A decision is one batch: all of it or nothing. More than a batch may have lies in several, between a
   BeginTransactionRecord and its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.cluster.changes import Change, CreateAcl, apply_all
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.reading import Replay
from ottla.cluster.metadata_log.writing import VersionedRecord, records_for
from ottla.light_dataclasses import replace
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from ottla.values import random_uuid

RECORDS_PER_BATCH: Final = 10_000
_FRAMES: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


class BatchPlan(NamedTuple):
    """What is to be appended, and the image then. `changes` are as they were written."""

    changes: tuple[Change, ...]
    batches: tuple[tuple[bytes, ...], ...]
    image: ClusterImage

    @property
    def record_count(self) -> int:
        return sum(map(len, self.batches))


def planned(
    image: ClusterImage, changes: Iterable[Change], *, next_offset: int, random_bytes: Callable[[int], bytes]
) -> BatchPlan:
    """The batches of changes; `next_offset` is where they will lie."""
    changes = with_ids(changes, image, random_bytes)
    return plan_of(image, changes, in_batches(list(records_for(changes, image))), next_offset=next_offset)


def plan_of(
    image: ClusterImage,
    changes: Sequence[Change],
    batches: Sequence[Sequence[VersionedRecord]],
    *,
    next_offset: int,
) -> BatchPlan:
    """The same of records that are there already."""
    records = [record for batch in batches for record in batch]
    after = folded(image, records, next_offset + len(records) - 1) if records else image
    return BatchPlan(tuple(changes), tuple(tuple(record.encode() for record in batch) for batch in batches), after)


def with_ids(
    changes: Iterable[Change], image: ClusterImage, random_bytes: Callable[[int], bytes]
) -> tuple[Change, ...]:
    """The log removes access rules by ids, so they get one here; one that holds already is not said twice."""
    return tuple(
        replace(change, id=random_uuid(random_bytes)) if isinstance(change, CreateAcl) else change
        for change in changes
        if not (isinstance(change, CreateAcl) and change.binding in image.acl_ids)
    )


def folded(image: ClusterImage, records: Iterable[VersionedRecord], last_offset: int) -> ClusterImage:
    """The image as any reader of the log will have it."""
    replay = Replay(image)
    for record in records:
        if not isinstance(record.record, _FRAMES):
            replay.add(record.record)
    return replace(apply_all(image, replay.changes()), change_number=last_offset)


def in_batches(records: Sequence[VersionedRecord]) -> list[Sequence[VersionedRecord]]:
    """One batch; where there is too much for one, several in a transaction."""
    if len(records) <= RECORDS_PER_BATCH:
        return [records] if records else []
    pieces: list[Sequence[VersionedRecord]] = [
        records[first : first + RECORDS_PER_BATCH] for first in range(0, len(records), RECORDS_PER_BATCH)
    ]
    begin = VersionedRecord(BeginTransactionRecord(name="a change of many records"))
    return [[begin], *pieces, [VersionedRecord(EndTransactionRecord())]]
