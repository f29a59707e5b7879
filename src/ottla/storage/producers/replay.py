"""Producers and transactions rebuilt from the batches in the log.

1. `book` takes an accepted append into the producer state, and aborted transactions into their index first, so that
   no reader of committed records can pass a transaction that the index does not know. Append, follower and recovery
   share it.
2. `replay` brings a producer state from the offset it stands at to another one, by headers; only markers are read.
3. `reindex` builds all indexes of a segment again, in which a question found a lie: nothing is lost by it.
4. Everything goes in steps of at most STEP_BATCHES batches, so that the caller can do other work in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ottla.errors import CorruptMessage
from ottla.records import BatchInfo, RecordBatch
from ottla.records.control import read_batch_marker
from ottla.records.layout import NO_PRODUCER_ID
from ottla.storage.files import Files
from ottla.storage.index.aborted_index import AbortedIndex, AbortedTransaction
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.producers.check import Accepted, Duplicate
from ottla.storage.producers.entry import ProducerBatch
from ottla.storage.producers.snapshot import load_newest
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.damage import next_sound
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

STEP_BATCHES: Final = 1000

T = TypeVar("T")
logger = logging.getLogger(__name__)


def book(producers: ProducerState, aborted_index: AbortedIndex, accepted: Accepted, next_offset: int) -> None:
    """The batches are in the log: they and the transactions they end are known from here on."""
    producers.update(accepted)
    for completed in accepted.completed:
        if completed.is_aborted:
            stable_offset = producers.last_stable_offset_after(completed)
            aborted_index.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable_offset)
            )
        producers.complete(completed)
    producers.move_end(next_offset)


def book_found(producers: ProducerState, aborted_index: AbortedIndex, batches: Sequence[BatchInfo]) -> None:
    """Book batches that were found in the log, together with their aborted transactions. Markers are RecordBatch."""
    if not batches:
        return
    known = [producer_batch(batch) for batch in batches if batch.producer_id != NO_PRODUCER_ID]
    accepted = producers.check_append(known, AppendOrigin.REPLICATION)
    assert not isinstance(accepted, Duplicate), "only clients are answered with Duplicate"
    book(producers, aborted_index, accepted, batches[-1].next_offset)


def producer_batch(batch: BatchInfo) -> ProducerBatch:
    """What the producer state must know of a batch."""
    marker = None
    if isinstance(batch, RecordBatch) and batch.record_count:
        marker = read_batch_marker((key, value) for _, _, key, value, _ in batch.tuples())
    return ProducerBatch(
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp_ms,
        batch.is_transactional,
        batch.is_control,
        marker,
    )


def found_batches(segment: Segment, start_offset: int, end_offset: int) -> Iterator[list[BatchInfo]]:
    """The batches of a segment in [start_offset, end_offset), in steps; markers come whole. What is damaged is left
    out: what the batches around it say of producers is better than a log that does not open."""
    found: list[BatchInfo] = []
    for position, batch in _headers_around_damage(segment, _start_position(segment, start_offset)):
        if batch.base_offset >= end_offset:
            break
        if batch.last_offset < start_offset:
            continue
        whole = _marker(segment, position, batch) if batch.is_control else batch
        if whole is not None:
            found.append(whole)
        if len(found) >= STEP_BATCHES:
            yield found
            found = []
    if found:
        yield found


def _headers_around_damage(segment: Segment, position: int) -> Iterator[tuple[int, BatchInfo]]:
    records, next_offset = segment.records, segment.base_offset
    while True:
        try:
            for at, batch in records.headers(position):
                yield at, batch
                position, next_offset = at + batch.size_bytes, batch.next_offset
            return
        except CorruptMessage as error:
            entries = segment.indexes.offsets.entries()
            behind = next_sound(records, entries, position, next_offset, segment.base_offset + INT32_MAX)
            logger.error("%s is damaged at offset %d, position %d: %s", segment.path, next_offset, position, error)
            if behind is None:
                return
            position = behind.position


def _marker(segment: Segment, position: int, batch: BatchInfo) -> RecordBatch | None:
    try:
        return segment.records.batch(position, batch.size_bytes)
    except CorruptMessage as error:
        logger.error("%s has a damaged marker at offset %d: %s", segment.path, batch.base_offset, error)
        return None


def _start_position(segment: Segment, offset: int) -> int:
    if offset <= segment.base_offset:
        return 0
    try:
        found = segment.translate(offset)
    except CorruptIndex:
        return 0  # the whole way instead; who asks a question of it will build it again
    return segment.size_bytes if found is None else found.position


def replay(producers: ProducerState, segments: Segments[Segment], end_offset: int) -> Iterator[int]:
    """Bring the state from the offset it stands at to `end_offset`; returns the offset reached after every step."""
    start_offset = producers.end_offset
    if start_offset < end_offset:
        for segment in segments.values(start_offset, end_offset):
            for batches in found_batches(segment, start_offset, end_offset):
                known = [producer_batch(batch) for batch in batches if batch.producer_id != NO_PRODUCER_ID]
                producers.replay(known, batches[-1].next_offset)
                yield producers.end_offset
    producers.move_end(end_offset)


# --- indexes that lie ------------------------------------------------------------------------------------------------


def with_sound_indexes(segment: Segment, reindexing: Callable[[Segment], None], question: Callable[[Segment], T]) -> T:
    """The answer of a segment; if its indexes cannot be trusted they are built again, and it is asked once more."""
    try:
        return question(segment)
    except CorruptIndex as error:
        logger.warning("building the indexes of %s anew: %s", segment.path, error)
        reindexing(segment)
        return question(segment)


def reindex(
    segment: Segment, segments: Segments[Segment], *, files: Files, directory: Path, log_start_offset: int, now_ms: int
) -> None:
    """Build all three indexes of a segment again from its records."""
    run(segment.rebuild_indexes())
    producers = ProducerState(start_offset=log_start_offset)
    load_newest(
        producers,
        files,
        directory,
        log_start_offset=log_start_offset,
        log_end_offset=segment.base_offset,
        now_ms=now_ms,
    )
    before = Segments(each for each in segments if each.base_offset < segment.base_offset)
    run(replay(producers, before, segment.base_offset))
    segment.aborted_index.reset()
    for batches in found_batches(segment, segment.base_offset, 2**63 - 1):
        book_found(producers, segment.aborted_index, batches)


def run(steps: Iterator[object]) -> None:
    """Do all steps at once."""
    deque(steps, maxlen=0)
