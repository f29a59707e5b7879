"""How batches get into a log: from a producer to its leader, and from the leader to its followers.

1. An append that raises has not happened: nothing of it is in the log, in the producer state or in an index, and the
   next append takes its place. A full disk (DiskFull) leaves the log readable and appendable; any other storage error
   means that the directory is not to be trusted, and goes up.
2. The order is: check the batch, check its producer, write a new leader epoch down, roll if needed, write the batch,
   book the producer. So the epoch file never lacks an epoch that is in the log.
3. A batch that is there already is not written again: its producer is answered with where it is. That holds, too, when
   its records would be refused today, because the clock was set or the topic has other rules: they were taken then.
4. Batches that came together are appended by one write: `append_run`. A write of 16 KB costs as much for the call as
   for the bytes, and so does everything that is done once per append. A run is appended as a whole or not at all. Only
   what is simple runs: plain batches of clients (records/checks.py), of any number of producers that go on where they
   were, in a leader epoch that is known, into the segment that is there. For anything else the answer is None, nothing
   has happened, and the batches go one by one, which is what a run means.
5. A follower appends the leader's bytes, offsets and epochs as they are. What one fetch brought is cut into as many
   appends as it needs segments.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.errors import KafkaStorageError
from ottla.light_tuples import NamedTuple
from ottla.records import BatchInfo, TimestampType
from ottla.records.checks import UNPLACED, PlacedBatch, RecordsCheck
from ottla.records.layout import LENGTH_AT, NO_PRODUCER_ID, NO_TIMESTAMP
from ottla.records.log_walks import place_plain_batch, place_plain_run
from ottla.storage.files import Buffer
from ottla.storage.index.sparse_index import INT32_MAX
from ottla.storage.log.append_rules import rules_of
from ottla.storage.log.follower_check import check_follower_append
from ottla.storage.log.leader_epochs import EpochHistory, LeaderEpochs
from ottla.storage.log.log_end import LogEnd
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.record_errors import RecordsRefused
from ottla.storage.log.truncate import Truncation
from ottla.storage.log.validation import inspect_batch, plain_terms, prepare_leader_append
from ottla.storage.producers.check import Accepted, Duplicate, VerificationGuard
from ottla.storage.producers.entry import (
    BatchMetadata,
    ProducerBatch,
    ProducerEntry,
    producer_batch,
    read_producer_batches,
)
from ottla.storage.producers.replay import book
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import TopicSettings

if TYPE_CHECKING:
    from ottla.storage.log.batch_history import BatchHistory


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


def results_of(batches: Sequence[PlacedBatch], log_start_offset: int, leader_epoch: int) -> list[AppendResult]:
    """What `append_run` did, said as `append_as_leader` says it."""
    return [AppendResult(each[0], each[1], NO_TIMESTAMP, log_start_offset, leader_epoch) for each in batches]


class Appender:
    """Appends to one log. It owns what the topic allows; the offsets are those of the log's end."""

    def __init__(
        self, end: LogEnd, epoch_history: EpochHistory, truncation: Truncation, settings: TopicSettings
    ) -> None:
        self._end = end
        self._producers = end.producers
        self._epoch_history = epoch_history
        self._truncation = truncation
        self._history: BatchHistory | None = None
        self.apply_settings(settings)

    def apply_settings(self, settings: TopicSettings) -> None:
        """The next append goes by these."""
        self._rules = rules_of(settings)
        self._plain_terms = plain_terms(self._rules)

    # --- from a producer ----------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
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
        end = self._end
        batch: PlacedBatch | BatchInfo | None = None
        append_time_ms = NO_TIMESTAMP
        if origin is AppendOrigin.CLIENT and self._plain_terms is not None:
            batch = place_plain_batch(buffer, end.log_end_offset, leader_epoch, now_ms, *self._plain_terms)
        if batch is None:
            try:
                ready = prepare_leader_append(
                    buffer,
                    self._rules,
                    origin=origin,
                    next_offset=end.log_end_offset,
                    leader_epoch=leader_epoch,
                    now_ms=now_ms,
                    zstd_allowed=zstd_allowed,
                    checked=checked,
                )
            except RecordsRefused:
                if origin is AppendOrigin.CLIENT and (known := self.find_repeated(buffer)) is not None:
                    return self._duplicate(known.batch)
                raise
            buffer, batch, append_time_ms = ready.buffer, ready.batches[0], ready.log_append_time_ms
        accepted = None
        if batch.producer_id > NO_PRODUCER_ID:
            asked = [producer_batch(buffer, batch)]
            if origin is AppendOrigin.CLIENT:
                self._recall(asked[0])
            decided = self._producers.check_append(asked, origin, guard=guard, transaction_version=transaction_version)
            if isinstance(decided, Duplicate):
                return self._duplicate(decided.batch)
            accepted = decided
        first_offset, last_offset = batch.base_offset, batch.last_offset
        if self._epoch_history.written_epoch != leader_epoch:
            self._epoch_history.change(lambda epochs: epochs.assign(leader_epoch, first_offset))
        segment = self._segment_for((batch,), len(buffer), batch.max_timestamp_ms, now_ms)
        self._write(segment, (buffer,), (batch,), accepted, now_ms)
        return AppendResult(first_offset, last_offset, append_time_ms, end.log_start_offset, leader_epoch)

    def find_repeated(self, buffer: Buffer) -> Duplicate | None:
        """Where a batch is that was appended before."""
        asked = producer_batch(buffer, BatchInfo(memoryview(buffer)))
        self._recall(asked)
        return self._producers.find_duplicate([asked])

    def _recall(self, batch: ProducerBatch) -> None:
        """Look in the log for what a snapshot left out, if this batch may be among it."""
        entry = self._producers.lacks_batches_before(batch)
        if entry is None:
            return
        if self._history is None:
            from ottla.storage.log.batch_history import BatchHistory  # few logs ever have a use for it

            self._history = BatchHistory(self._end)
        self._history.recall(entry, batch)

    def _duplicate(self, batch: BatchMetadata) -> AppendResult:
        is_ours = self._rules.timestamp_type is TimestampType.LOG_APPEND_TIME
        latest = self._epoch_history.epochs.epoch_for_offset(batch.first_offset)
        return AppendResult(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp_ms if is_ours else NO_TIMESTAMP,
            self._end.log_start_offset,
            -1 if latest is None else latest,
            is_duplicate=True,
        )

    def inspect_batch(
        self, buffer: Buffer, *, now_ms: int, zstd_allowed: bool = True
    ) -> Generator[None, None, RecordsCheck]:
        """Look into a client's batch piece by piece before it is appended; see validation.py."""
        return inspect_batch(buffer, self._rules, origin=AppendOrigin.CLIENT, now_ms=now_ms, zstd_allowed=zstd_allowed)

    # --- batches that came together -----------------------------------------------------------------------------------

    def append_run(self, buffers: Sequence[Buffer], *, leader_epoch: int, now_ms: int) -> list[PlacedBatch] | None:
        """Check the batches, give them the next offsets and write them; None when they must go one by one."""
        end, terms = self._end, self._plain_terms
        if terms is None or self._epoch_history.written_epoch != leader_epoch:
            return None
        run = place_plain_run(buffers, end.log_end_offset, leader_epoch, now_ms, *terms)
        if run is None:
            return None
        batches, size_bytes, max_timestamp_ms, have_producer = run
        producers = self._producers
        fits = bool(batches) and end.fits_active(size_bytes, batches[-1][1], max_timestamp_ms)
        entries = producers.entries_after(batches) if fits and have_producer else ()
        if not fits or entries is None:
            for buffer in buffers:
                memoryview(buffer)[:LENGTH_AT] = UNPLACED
            return None
        self._write_on(end.open_active(), buffers, batches, entries)
        return batches

    # --- from the leader ----------------------------------------------------------------------------------------------

    def append_as_follower(self, buffer: Buffer, *, leader_epoch: int, now_ms: int) -> AppendResult | None:
        """Write what the leader sent, as it is; None when there is no whole batch in it of a leader up to ours."""
        end = self._end
        ready = check_follower_append(buffer, next_offset=end.log_end_offset, leader_epoch=leader_epoch)
        if ready is None:
            return None
        if not self._epoch_history.covers(ready.leader_epoch):
            self._epoch_history.change(lambda epochs: _assign_epochs(epochs, ready.batches))
        for batches in _runs(ready.batches, end.limits.segment_bytes):
            start, stop = batches[0].position, batches[-1].position + batches[-1].size_bytes
            entries = self._producers.entries_after(batches)
            accepted = self._decided(ready.buffer, batches) if entries is None else None
            segment = self._segment_for(batches, stop - start, ready.max_timestamp_ms, now_ms)
            if accepted is None:
                self._write_on(segment, (ready.buffer[start:stop],), batches, entries or ())
            else:
                self._write(segment, (ready.buffer[start:stop],), batches, accepted, now_ms)
        return AppendResult(
            ready.first_offset, ready.last_offset, NO_TIMESTAMP, end.log_start_offset, ready.leader_epoch
        )

    def _decided(self, buffer: Buffer, batches: list[BatchInfo]) -> Accepted | None:
        """What the leader's batches do to the state of their producers, step by step; None without any."""
        known = read_producer_batches(buffer, batches)
        if not known:
            return None
        decided = self._producers.check_append(known, AppendOrigin.REPLICATION)
        assert not isinstance(decided, Duplicate), "only clients are answered with Duplicate"
        return decided

    # --- writing ------------------------------------------------------------------------------------------------------

    def _segment_for(
        self, batches: Sequence[BatchInfo | PlacedBatch], size_bytes: int, max_timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The segment to write to: the active one, or a new one if that must end."""
        last_offset = batches[-1].last_offset
        if not self._end.fits_active(size_bytes, last_offset, max_timestamp_ms):
            self._end.roll_if_needed(batches[0].base_offset, last_offset, size_bytes, max_timestamp_ms, now_ms)
        return self._end.open_active()

    def _write_on(
        self,
        segment: Segment,
        buffers: Sequence[Buffer],
        batches: Sequence[BatchInfo | PlacedBatch],
        entries: Sequence[ProducerEntry],
    ) -> None:
        """`_write` for batches without a producer, or of some that go on where they were: behind the write of the
        records only memory changes, so nothing has to be taken back."""
        next_offset = batches[-1].last_offset + 1
        self._end.write(segment, buffers, batches, next_offset)
        if entries:
            self._producers.went_on(entries)
        self._producers.end_offset = next_offset

    def _write(
        self,
        segment: Segment,
        buffers: Sequence[Buffer],
        batches: Sequence[BatchInfo | PlacedBatch],
        accepted: Accepted | None,
        now_ms: int,
    ) -> None:
        """Write batches that were checked and have their place: all of them and what must be known of them, or
        nothing."""
        end = self._end
        next_offset = batches[-1].last_offset + 1
        size_before, end_before = segment.records.size_bytes, end.log_end_offset
        try:
            end.write(segment, buffers, batches, next_offset)
            if accepted is None:
                self._producers.end_offset = next_offset
            else:
                book(self._producers, segment.aborted_index, accepted, next_offset)
        except KafkaStorageError:
            if segment.records.size_bytes > size_before:  # the records are there, but not what must be known of them
                self._producers.move_end(end.log_end_offset)
                self._truncation.truncate_to(end_before, now_ms)
            raise


def _assign_epochs(epochs: LeaderEpochs, batches: list[BatchInfo]) -> bool:
    changed = False
    for batch in batches:
        latest = epochs.latest
        if batch.leader_epoch >= 0 and (latest is None or batch.leader_epoch > latest.epoch):
            changed = epochs.assign(batch.leader_epoch, batch.base_offset) or changed
    return changed


def _runs(batches: list[BatchInfo], size_limit_bytes: int) -> Iterator[list[BatchInfo]]:
    """The batches in rows that each fit one segment, if only a batch does."""
    last = batches[-1]
    whole_bytes = last.position + last.size_bytes - batches[0].position
    if whole_bytes <= size_limit_bytes and last.last_offset - batches[0].base_offset <= INT32_MAX:
        yield batches
        return
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
