"""A log against a plain list: whatever is done to both, they say the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.records import BatchBuilder, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
SETTINGS = TopicSettings({"internal.segment.bytes": 900, "segment.index.bytes": 120, "index.interval.bytes": 150})
NOW_MS = 1_000_000
PRODUCERS = st.integers(1, 3)


@dataclass(frozen=True)
class Batch:
    """One batch of the model; a marker has no values."""

    base_offset: int
    values: tuple[bytes, ...]
    timestamp_ms: int
    epoch: int
    producer: int = -1
    sequence: int = -1
    is_transactional: bool = False
    commits: bool | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + max(1, len(self.values))


@dataclass
class Model:
    """All there is to know of a log, as a list of batches."""

    batches: list[Batch] = field(default_factory=list)
    log_start: int = 0
    high_watermark: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)

    @property
    def log_end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.log_start

    def next_sequence(self, producer: int) -> int:
        mine = [each for each in self.batches if each.producer == producer and each.values]
        return mine[-1].sequence + len(mine[-1].values) if mine else 0

    def transactions(self) -> list[tuple[int, int, int | None, bool | None]]:
        """Producer, first offset, offset of the marker and whether it commits."""
        found: list[tuple[int, int, int | None, bool | None]] = []
        started: dict[int, int] = {}
        for each in self.batches:
            if each.is_transactional and each.values:
                started.setdefault(each.producer, each.base_offset)
            elif each.commits is not None and each.producer in started:
                found.append((each.producer, started.pop(each.producer), each.base_offset, each.commits))
        return [*found, *((producer, first, None, None) for producer, first in started.items())]

    def open_producers(self) -> list[int]:
        return sorted(producer for producer, _, marker, _ in self.transactions() if marker is None)

    def last_stable(self, restarted_at: int = 0) -> int:
        """Markers before `restarted_at` do not wait for the high watermark: snapshots do not know that they should."""
        unstable = [
            first
            for _, first, marker, _ in self.transactions()
            if marker is None or marker >= max(self.high_watermark, self.log_start, restarted_at)
        ]
        return min([self.high_watermark, *(max(first, self.log_start) for first in unstable)])

    def forget_epochs_at_the_end(self) -> None:
        """A start believes only in epochs that have a record."""
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < self.log_end]

    def cut(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each.next_offset <= offset]
        self.epochs = [(epoch, start) for epoch, start in self.epochs if start < offset]
        self.high_watermark = min(self.high_watermark, self.log_end)


class LogMachine(RuleBasedStateMachine):
    """Both get the same; the crash is the only step after which the model learns from the log."""

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.files = MemoryFiles(seed=seed)
        self.files.make_directory(DIRECTORY.parent)
        self.files.sync_directory(Path("/"))
        self.model = Model()
        self.epoch = 0
        self.checkpoint = self.restarted_at = 0
        self.log = self.opened(is_clean=False)

    def opened(self, *, is_clean: bool) -> PartitionLog:
        return open_log(
            DIRECTORY,
            TopicPartition("t", 0),
            SETTINGS,
            files=self.files,
            now_ms=NOW_MS,
            is_clean=is_clean,
            recovery_point=self.checkpoint,
            log_start_offset=self.model.log_start,
            verification_required=False,
        )

    # --- append ---

    def write(self, batch: Batch) -> None:
        builder = BatchBuilder(
            producer_id=batch.producer,
            producer_epoch=-1 if batch.producer < 0 else 0,
            base_sequence=batch.sequence,
            transactional=batch.is_transactional,
        )
        for value in batch.values:
            builder.append(batch.timestamp_ms, b"k", value)
        appended = self.log.append_as_leader(builder.close(), leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (appended.first_offset, appended.next_offset) == (batch.base_offset, batch.next_offset)
        self.wrote(batch)

    def wrote(self, batch: Batch) -> None:
        if not self.model.epochs or self.model.epochs[-1][0] < batch.epoch:
            # An epoch whose records are all deleted starts where the next one does: it has nothing left to say.
            self.model.epochs = [each for each in self.model.epochs if each[1] < batch.base_offset]
            self.model.epochs.append((batch.epoch, batch.base_offset))
        self.model.batches.append(batch)

    def batch(self, values: list[bytes], timestamp_ms: int, **rest: Any) -> Batch:
        return Batch(self.log.log_end_offset, tuple(values), timestamp_ms, self.epoch, **rest)

    @rule(values=st.lists(st.binary(max_size=200), min_size=1, max_size=4), timestamp_ms=st.integers(0, 1000))
    def append(self, values: list[bytes], timestamp_ms: int) -> None:
        self.write(self.batch(values, timestamp_ms))

    @rule(producer=PRODUCERS, values=st.lists(st.binary(max_size=200), min_size=1, max_size=3), is_open=st.booleans())
    def append_as_producer(self, producer: int, values: list[bytes], is_open: bool) -> None:
        is_transactional = is_open or producer in self.model.open_producers()
        self.write(
            self.batch(
                values,
                NOW_MS,
                producer=producer,
                sequence=self.model.next_sequence(producer),
                is_transactional=is_transactional,
            )
        )

    @precondition(lambda self: any(each.producer >= 0 and each.values for each in self.model.batches))
    @rule(data=st.data())
    def repeat_the_last_batch_of_a_producer(self, data: st.DataObject) -> None:
        producers = sorted({each.producer for each in self.model.batches if each.producer >= 0 and each.values})
        producer = data.draw(st.sampled_from(producers))
        last = [each for each in self.model.batches if each.producer == producer and each.values][-1]
        if last.is_transactional != (producer in self.model.open_producers()):
            return
        builder = BatchBuilder(
            producer_id=producer,
            producer_epoch=0,
            base_sequence=last.sequence,
            transactional=last.is_transactional,
        )
        for value in last.values:
            builder.append(last.timestamp_ms, b"k", value)
        appended = self.log.append_as_leader(builder.close(), leader_epoch=self.epoch, now_ms=NOW_MS)
        assert (appended.first_offset, appended.is_duplicate) == (last.base_offset, True)

    @precondition(lambda self: self.model.open_producers())
    @rule(data=st.data(), commits=st.booleans())
    def end_transaction(self, data: st.DataObject, commits: bool) -> None:
        producer = data.draw(st.sampled_from(self.model.open_producers()))
        marker = EndTransactionMarker(commit=commits, coordinator_epoch=0)
        content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
        batch = self.batch([], NOW_MS, producer=producer, is_transactional=True, commits=commits)
        self.log.append_as_leader(
            content,
            leader_epoch=self.epoch,
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=1,
        )
        self.wrote(batch)

    # --- everything else ---

    @rule()
    def become_leader_again(self) -> None:
        self.epoch += 1

    @rule(share=st.floats(0, 1))
    def move_high_watermark(self, share: float) -> None:
        bounds = [self.model.log_start, *(each.next_offset for each in self.model.batches)]
        chosen = max(self.model.high_watermark, bounds[round(share * (len(bounds) - 1))])
        self.model.high_watermark = chosen
        assert self.log.update_high_watermark(chosen) == chosen

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, NOW_MS)
        self.checkpoint = self.log.recovery_point
        assert self.log.flushed_offset == self.log.log_end_offset

    @precondition(lambda self: self.model.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([each.base_offset for each in self.model.batches]))
        if offset < self.model.log_start:
            return
        self.checkpoint = min(self.checkpoint, offset)
        self.restarted_at = self.log.log_end_offset
        self.log.truncate_to(offset, NOW_MS).remove(self.files)
        self.model.cut(offset)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start, end = self.model.log_start, self.model.high_watermark
        chosen = start + round(share * (end - start))
        self.log.advance_log_start(chosen)
        self.model.log_start = chosen
        covering = [epoch for epoch, at in self.model.epochs if at <= chosen]
        if covering:
            later = [(epoch, at) for epoch, at in self.model.epochs if at > chosen]
            self.model.epochs = [(covering[-1], chosen), *later]
        self.log.delete_segments(self.log.segments_below_log_start(), "model", NOW_MS).remove(self.files)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.checkpoint = self.log.recovery_point
        assert self.checkpoint == self.log.log_end_offset
        self.log = self.opened(is_clean=True)
        self.model.forget_epochs_at_the_end()
        self.restarted_at = self.log.log_end_offset
        self.log.update_high_watermark(self.model.high_watermark)

    @rule()
    def crash(self) -> None:
        flushed_offset = self.log.flushed_offset
        self.files.crash()
        self.log = self.opened(is_clean=False)
        end = self.log.log_end_offset
        assert flushed_offset <= end <= max(self.model.log_end, self.model.log_start)
        if end == self.model.log_start and not self.log.producers.entries:
            self.model.batches.clear()  # everything was lost but the knowledge where the log starts
        assert all(each.next_offset <= end or each.base_offset >= end for each in self.model.batches)
        self.model.cut(end)
        self.model.forget_epochs_at_the_end()
        self.restarted_at = self.log.log_end_offset
        self.model.high_watermark = max(self.model.high_watermark, self.model.log_start)
        self.log.update_high_watermark(self.model.high_watermark)

    # --- what must be so ---

    def read(self, up_to: str) -> list[tuple[int, bytes | None]]:
        found: list[tuple[int, bytes | None]] = []
        offset = self.log.log_start_offset
        while content := self.log.read(offset, 500, up_to=up_to).slice.read():  # type: ignore[arg-type]
            for each in RecordStream(content):
                each.check()
                found += [] if each.is_control else [(record.offset, record.value) for record in each.records()]
                offset = each.next_offset
        return [(at, value) for at, value in found if at >= self.log.log_start_offset]

    def expected(self, limit: int) -> list[tuple[int, bytes | None]]:
        return [
            (each.base_offset + number, value)
            for each in self.model.batches
            if each.next_offset <= limit
            for number, value in enumerate(each.values)
            if each.base_offset + number >= self.model.log_start
        ]

    @invariant()
    def offsets_agree(self) -> None:
        log, model = self.log, self.model
        assert log.log_start_offset == model.log_start
        assert log.log_end_offset == max(model.log_end, model.log_start)
        assert log.high_watermark == model.high_watermark
        assert model.last_stable() <= log.last_stable_offset <= model.last_stable(self.restarted_at)
        assert log.recovery_point <= log.flushed_offset <= log.log_end_offset
        assert [(each.epoch, each.start_offset) for each in log.epochs.entries] == model.epochs

    @invariant()
    def readers_see_what_they_may(self) -> None:
        assert self.read("log_end") == self.expected(self.log.log_end_offset)
        assert self.read("high_watermark") == self.expected(self.model.high_watermark)
        assert self.read("last_stable") == self.expected(self.log.last_stable_offset)

    @invariant()
    def aborted_transactions_are_known(self) -> None:
        log = self.log
        found = {(each.producer_id, each.first_offset, each.last_offset) for each in self.aborted()}
        for producer, first, marker, commits in self.model.transactions():
            if commits is False and marker is not None and marker >= log.log_start_offset:
                assert (producer, first, marker) in found
            elif commits:
                assert (producer, first, marker) not in found

    @invariant()
    def readers_of_any_piece_are_told_what_was_aborted_in_it(self) -> None:
        log = self.log
        ended = [each for each in self.model.transactions() if each[3] is False and each[2] is not None]
        for end_offset in {first + 1 for _, first, _, _ in ended if first >= log.log_start_offset}:
            found = {each.first_offset for each in log.aborted_transactions(log.log_start_offset, end_offset)}
            reaching = {first for _, first, marker, _ in ended if first < end_offset and marker >= log.log_start_offset}
            assert reaching <= found

    def aborted(self) -> list[Any]:
        return self.log.aborted_transactions(self.log.log_start_offset, self.log.log_end_offset)

    @invariant()
    def producers_go_on_where_they_were(self) -> None:
        for producer, entry in self.log.producers.entries.items():
            mine = [each for each in self.model.batches if each.producer == producer and each.values]
            if mine:
                assert entry.last_sequence + 1 == self.model.next_sequence(producer)

    @invariant()
    def times_are_found(self) -> None:
        for timestamp_ms in (0, 500, 1000, NOW_MS, NOW_MS + 1):
            visible = [
                (each.timestamp_ms, max(each.base_offset, self.model.log_start))
                for each in self.model.batches
                if each.next_offset > self.model.log_start and each.timestamp_ms >= timestamp_ms
            ]
            found = self.log.offset_for_timestamp(timestamp_ms)
            assert (found and (found.timestamp_ms, found.offset)) == (visible[0] if visible else None)


TestLog = LogMachine.TestCase
TestLog.settings = profile(max_examples=max(15, profile.default.max_examples // 2), stateful_step_count=30)  # type: ignore[union-attr]
