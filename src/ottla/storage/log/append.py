"""How batches get into a log: from a producer to its leader, and from the leader to its followers.

1. An append that raises has not happened: nothing of it is in the log, in the producer state or in an index, and the
   next append takes its place. A full disk (DiskFull) leaves the log readable and appendable; any other storage error
   means that the directory is not to be trusted, and goes up.
2. The order is: check the batch, check its producer, write a new leader epoch down, roll if needed, write the batch,
   book the producer. So the epoch file never lacks an epoch that is in the log.
3. A batch that is there already is not written again: its producer is answered with where it is.
4. A follower takes the leader's bytes, offsets and epochs as they are. What one fetch brought is cut into as many
   appends as it needs segments.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from ottla.errors import KafkaStorageError
from ottla.records import BatchInfo, TimestampType
from ottla.records.checks import PlacedBatch, RecordsCheck
from ottla.records.implementation import place_plain_batch
from ottla.records.layout import NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.storage.files import Buffer
from ottla.storage.index.sparse_index import INT32_MAX, CorruptIndex
from ottla.storage.log.follower_check import check_follower_append
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.log_state import LogState
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.roll import roll
from ottla.storage.log.truncate import truncate_to
from ottla.storage.log.validation import inspect_batch as inspect_client_batch
from ottla.storage.log.validation import prepare_leader_append
from ottla.storage.producers.check import Accepted, Duplicate, VerificationGuard
from ottla.storage.producers.entry import BatchMetadata, producer_batch, read_producer_batches
from ottla.storage.producers.replay import book
from ottla.storage.segment.segment import Segment


class AppendResult(NamedTuple):
    """Where the records are. Refused records come as an error with `record_errors`, see record_errors.py."""

    first_offset: int
    last_offset: int
    # -1 unless the topic's times are the broker's.
    log_append_time_ms: int
    log_start_offset: int
    leader_epoch: int
    is_duplicate: bool = False

    @property
    def next_offset(self) -> int:
        """What must be replicated or flushed before the append may be acknowledged."""
        return self.last_offset + 1


def append_as_leader(
    log: LogState,
    buffer: Buffer,
    *,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    guard: VerificationGuard | None = None,
    transaction_version: int | None = None,
    zstd_allowed: bool = True,
    checked: RecordsCheck | None = None,
) -> AppendResult:
    """Check one batch, give it the next offsets and write it; the buffer itself is changed where it is writable.

    `checked` is what `inspect_batch` found in it before.
    """
    batch: PlacedBatch | BatchInfo | None = None
    append_time_ms = NO_TIMESTAMP
    if origin is AppendOrigin.CLIENT and log.plain_terms is not None:
        batch = place_plain_batch(buffer, log.log_end_offset, leader_epoch, now_ms, *log.plain_terms)
    if batch is None:
        ready = prepare_leader_append(
            buffer,
            log.rules,
            origin=origin,
            next_offset=log.log_end_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            zstd_allowed=zstd_allowed,
            checked=checked,
        )
        buffer, batch, append_time_ms = ready.buffer, ready.batches[0], ready.log_append_time_ms
    accepted = None
    if batch.producer_id > NO_PRODUCER_ID:
        asked = [producer_batch(buffer, batch)]
        decided = log.producers.check_append(asked, origin, guard=guard, transaction_version=transaction_version)
        if isinstance(decided, Duplicate):
            return _duplicate(log, decided.batch)
        accepted = decided
    first_offset, last_offset = batch.base_offset, batch.last_offset
    if log.epoch_history.written_epoch != leader_epoch:
        log.epoch_history.change(lambda epochs: epochs.assign(leader_epoch, first_offset))
    segment = _segment_for(log, (batch,), len(buffer), batch.max_timestamp_ms, now_ms)
    write_batches(log, segment, (buffer,), (batch,), accepted, now_ms)
    return AppendResult(first_offset, last_offset, append_time_ms, log.log_start_offset, leader_epoch)


def _duplicate(log: LogState, batch: BatchMetadata) -> AppendResult:
    is_ours = log.rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    latest = log.epochs.epoch_for_offset(batch.first_offset)
    return AppendResult(
        batch.first_offset,
        batch.last_offset,
        batch.timestamp_ms if is_ours else NO_TIMESTAMP,
        log.log_start_offset,
        -1 if latest is None else latest,
        is_duplicate=True,
    )


def inspect_batch(
    log: LogState, buffer: Buffer, *, now_ms: int, zstd_allowed: bool = True
) -> Generator[None, None, RecordsCheck]:
    """Look into a client's batch piece by piece before it is appended; see validation.py."""
    return inspect_client_batch(buffer, log.rules, origin=AppendOrigin.CLIENT, now_ms=now_ms, zstd_allowed=zstd_allowed)


def append_as_follower(log: LogState, buffer: Buffer, *, leader_epoch: int, now_ms: int) -> AppendResult | None:
    """Write what the leader sent, as it is; None when there is no whole batch in it of a leader up to ours."""
    ready = check_follower_append(buffer, next_offset=log.log_end_offset, leader_epoch=leader_epoch)
    if ready is None:
        return None
    log.epoch_history.change(lambda epochs: _assign_epochs(epochs, ready.batches))
    for batches in _runs(ready.batches, log.limits.segment_bytes):
        start, end = batches[0].position, batches[-1].position + batches[-1].size_bytes
        known = read_producer_batches(ready.buffer, batches)
        accepted = None
        if known:
            decided = log.producers.check_append(known, AppendOrigin.REPLICATION)
            assert not isinstance(decided, Duplicate), "only clients are answered with Duplicate"
            accepted = decided
        segment = _segment_for(log, batches, end - start, ready.max_timestamp_ms, now_ms)
        write_batches(log, segment, (ready.buffer[start:end],), batches, accepted, now_ms)
    return AppendResult(ready.first_offset, ready.last_offset, NO_TIMESTAMP, log.log_start_offset, ready.leader_epoch)


def _assign_epochs(epochs: LeaderEpochs, batches: list[BatchInfo]) -> bool:
    changed = False
    for batch in batches:
        latest = epochs.latest
        if batch.leader_epoch >= 0 and (latest is None or batch.leader_epoch > latest.epoch):
            changed = epochs.assign(batch.leader_epoch, batch.base_offset) or changed
    return changed


def _runs(batches: list[BatchInfo], size_limit_bytes: int) -> Iterator[list[BatchInfo]]:
    """The batches in rows that each fit one segment, if only a batch does."""
    row: list[BatchInfo] = []
    size_bytes = 0
    for batch in batches:
        fits = size_bytes + batch.size_bytes <= size_limit_bytes
        if row and not (fits and batch.last_offset - row[0].base_offset <= INT32_MAX):
            yield row
            row, size_bytes = [], 0
        row.append(batch)
        size_bytes += batch.size_bytes
    yield row


def write_batches(
    log: LogState,
    segment: Segment,
    buffers: Sequence[Buffer],
    batches: Sequence[BatchInfo | PlacedBatch],
    accepted: Accepted | None,
    now_ms: int,
) -> None:
    """Write batches that were checked and have their place: all of them and what must be known of them, or nothing."""
    last_offset = batches[-1].last_offset
    end_before, log_end_before = segment.records.size_bytes, log.log_end_offset
    try:
        try:
            segment.append(last_offset, batches, buffers)
        except CorruptIndex:
            log.segments.sound(segment, lambda doubtful: doubtful.indexes.make_ready())
            segment.append(last_offset, batches, buffers)
        log.log_end_offset = last_offset + 1
        if accepted is None:
            log.producers.end_offset = last_offset + 1
        else:
            book(log.producers, segment.aborted_index, accepted, last_offset + 1)
    except KafkaStorageError:
        if segment.records.size_bytes > end_before:  # the records are there, but not what must be known of them
            log.producers.move_end(log.log_end_offset)
            truncate_to(log, log_end_before, now_ms)
        raise


def fits_active(log: LogState, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> bool:
    """Whether the active segment takes it without a doubt. What nearly every append finds, in few steps."""
    active, limits = log.active, log.limits
    end, first_ms = active.records.size_bytes + size_bytes, active.first_timestamp_ms
    return (
        end <= limits.segment_bytes
        and end <= log.bytes_before_full_index
        and last_offset - active.base_offset <= INT32_MAX
        and first_ms >= 0
        and max_timestamp_ms - first_ms <= limits.segment_ms - active.jitter_ms
    )


def _segment_for(
    log: LogState, batches: Sequence[BatchInfo | PlacedBatch], size_bytes: int, max_timestamp_ms: int, now_ms: int
) -> Segment:
    """The segment to write to: the active one, or a new one if that must end."""
    last_offset = batches[-1].last_offset
    if fits_active(log, size_bytes, last_offset, max_timestamp_ms):
        return log.active
    must_roll = log.segments.sound(
        log.active,
        lambda segment: segment.should_roll(
            log.limits,
            now_ms=now_ms,
            incoming_bytes=size_bytes,
            incoming_timestamp_ms=max_timestamp_ms,
            incoming_last_offset=last_offset,
        ),
    )
    return roll(log, now_ms, batches[0].base_offset) if must_roll else log.active
