"""Batches that came together, appended by one write.

A producer has several requests on their way, and they arrive together. A write of 16 KB costs as much for the call as
for the bytes, and so does everything that is done once per append; done once per run, both are shared.

1. A run is appended as a whole or not at all: either all its batches are in the log, or an error says that none is.
2. Only what is simple runs: plain batches of clients (records/checks.py), all without a producer or all of one that
   goes on where it was, in a leader epoch that is known, into the segment that is there. For anything else the answer
   is None, nothing has happened, and the batches go one by one, which is what a run means.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.checks import PlacedBatch
from ottla.records.implementation import place_plain_batch
from ottla.records.layout import LENGTH_AT, NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.storage.files import Buffer
from ottla.storage.log.append import AppendResult, fits_active, write_batches
from ottla.storage.log.log_state import LogState
from ottla.storage.producers.check import Accepted
from ottla.storage.producers.entry import producer_batch

UNPLACED = bytes(LENGTH_AT)
NOBODY = Accepted({}, [], [], set())


def append_run(
    log: LogState, buffers: Sequence[Buffer], *, leader_epoch: int, now_ms: int
) -> list[AppendResult] | None:
    """Check the batches, give them the next offsets and write them; None when they must go one by one."""
    batches: list[PlacedBatch] = []
    accepted = _decide(log, buffers, batches, leader_epoch, now_ms)
    if accepted is None:
        for buffer, _ in zip(buffers, batches, strict=False):
            memoryview(buffer)[:LENGTH_AT] = UNPLACED
        return None
    write_batches(log, log.active, buffers, batches, None if accepted is NOBODY else accepted, now_ms)
    start_offset = log.log_start_offset
    # By tuple itself: the constructor of a named tuple takes three times as long, and here that shows.
    return [
        tuple.__new__(AppendResult, (each[0], each[1], NO_TIMESTAMP, start_offset, leader_epoch, False))
        for each in batches
    ]


def _decide(
    log: LogState, buffers: Sequence[Buffer], batches: list[PlacedBatch], leader_epoch: int, now_ms: int
) -> Accepted | None:
    """Give every batch its place, and say what their producer's state will be; None when this is no run."""
    terms = log.plain_terms
    if terms is None or log.epoch_history.written_epoch != leader_epoch:
        return None
    next_offset, size_bytes, latest_ms, have_producer = log.log_end_offset, 0, NO_TIMESTAMP, False
    for buffer in buffers:
        placed = place_plain_batch(buffer, next_offset, leader_epoch, now_ms, *terms)
        if placed is None:
            return None
        batches.append(placed)
        _, last_offset, placed_bytes, timestamp_ms, producer_id, *_ = placed
        next_offset = last_offset + 1
        size_bytes += placed_bytes
        have_producer = have_producer or producer_id != NO_PRODUCER_ID
        if timestamp_ms > latest_ms:
            latest_ms = timestamp_ms
    if not fits_active(log, size_bytes, next_offset - 1, latest_ms):
        return None
    if not have_producer:
        return NOBODY
    asked = [producer_batch(buffer, batch) for buffer, batch in zip(buffers, batches, strict=True)]
    return log.producers.check_run(asked)
