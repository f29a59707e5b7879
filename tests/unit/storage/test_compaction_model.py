"""Compaction against a plain model, with a crash at any moment: R13.

The model is a dictionary: the last committed value of every key, with its offset. Whatever is appended, ended, rolled,
cleaned, restarted or crashed, a reader of committed records who remembers the last value of every key comes to the same
dictionary; what it finds stands at the offset it was appended with; a tombstone is there for delete.retention.ms after
it was written at least; and producers go on with their sequences.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder, Compression, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.compaction.cleaner_plan import CleanerSettings
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
PARTITION = TopicPartition("t", 0)
RETENTION_MS = 1000
MAX_EXAMPLES = int(os.environ.get("OTTLA_LONG_EXAMPLES", "40"))
SETTINGS = TopicSettings(
    {
        "cleanup.policy": "compact",
        "internal.segment.bytes": 1500,
        "segment.index.bytes": 240,
        "index.interval.bytes": 100,
        "min.cleanable.dirty.ratio": 0,
        "delete.retention.ms": RETENTION_MS,
    }
)
Row = tuple[int, bytes, bytes | None]  # offset, key, value
Written = tuple[int, bytes, bytes | None, int]  # and its time

keys = st.sampled_from([b"a", b"b", b"c", b"d" * 40])
values = st.one_of(st.none(), st.binary(max_size=3), st.just(b"v" * 200))
producers = st.sampled_from([1, 2, 3])
record_lists = st.lists(st.tuples(keys, values), min_size=1, max_size=4)


class CompactedLog(RuleBasedStateMachine):
    """A log, a cleaner, and what must be true of them."""

    @initialize(
        seed=st.integers(0, 1000),
        slots=st.sampled_from([2, 4, 1000]),
        buffer_bytes=st.sampled_from([150, 900, 1 << 19]),
    )
    def start(self, seed: int, slots: int, buffer_bytes: int) -> None:
        self.files = MemoryFiles(seed=seed)
        self.files.make_directory(DIRECTORY.parent)
        self.files.sync_directory(Path("/"))
        self.now_ms = 1_000_000
        self.how = CleanerSettings(dedupe_buffer_bytes=24 * slots, io_buffer_bytes=buffer_bytes)
        self.recovery_point = 0
        self.checkpoint: dict[TopicPartition, int] = {}
        self.committed: list[Written] = []
        self.open: dict[int, list[Written]] = {}
        self.sequences: dict[int, int] = {}
        self.begin()

    def begin(self) -> None:
        self.log = open_log(
            *(DIRECTORY, PARTITION, SETTINGS),
            files=self.files,
            now_ms=self.now_ms,
            is_clean=False,
            recovery_point=self.recovery_point,
            verification_required=False,
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        self.cleaner = Cleaner(self.how, {PARTITION: self.log}, self.checkpoint)

    # --- what producers do ---

    @rule(records=record_lists, producer=producers, codec=st.sampled_from(list(Compression)))
    def append(self, records: list[tuple[bytes, bytes | None]], producer: int, codec: Compression) -> None:
        """Outside of a transaction, unless the producer has begun one."""
        self.write(records, producer, codec, transactional=producer in self.open)

    @rule(records=record_lists, producer=producers, codec=st.sampled_from(list(Compression)))
    def begin_transaction(self, records: list[tuple[bytes, bytes | None]], producer: int, codec: Compression) -> None:
        self.write(records, producer, codec, transactional=True)

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, 2), commit=st.booleans())
    def end_transaction(self, which: int, commit: bool) -> None:
        producer = sorted(self.open)[which % len(self.open)]
        marker = EndTransactionMarker(commit=commit, coordinator_epoch=0)
        content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=self.now_ms)
        self.take(content, AppendOrigin.COORDINATOR)
        written = self.open.pop(producer)
        self.committed += written if commit else []

    def write(
        self, records: list[tuple[bytes, bytes | None]], producer: int, codec: Compression, *, transactional: bool
    ) -> None:
        sequence = self.sequences.get(producer, 0)
        builder = BatchBuilder(
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=transactional,
            compression=codec,
        )
        for key, value in records:
            builder.append(self.now_ms, key, value)
        first = self.take(bytearray(builder.close()), AppendOrigin.CLIENT)
        self.sequences[producer] = sequence + len(records)
        written = [(first + number, key, value, self.now_ms) for number, (key, value) in enumerate(records)]
        (self.open.setdefault(producer, []) if transactional else self.committed).extend(written)

    def take(self, content: bytes | bytearray, origin: AppendOrigin) -> int:
        done = self.log.append_as_leader(
            content, leader_epoch=0, now_ms=self.now_ms, origin=origin, transaction_version=1
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return done.first_offset

    # --- what the broker does ---

    @rule(passed_ms=st.sampled_from([1, RETENTION_MS // 2, RETENTION_MS]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(steps=st.sampled_from([1, 3, 1000]))
    def clean(self, steps: int) -> None:
        self.roll()
        if self.step(steps):
            self.nothing_is_left_that_is_not_true()
        self.check()

    @rule(after=st.integers(0, 80), is_replayed=st.booleans())
    def crash_while_cleaning(self, after: int, is_replayed: bool) -> None:
        """The disk fails after so many operations of the cleaner, and then the power."""
        self.roll()
        if after:
            self.files.fail(after, for_ever=True)
            with suppress(KafkaStorageError):
                self.step(1000)
        self.files.crash()
        if is_replayed:
            self.lose_snapshots()
        self.begin()
        self.check()

    def roll(self) -> None:
        self.log.roll(self.now_ms)
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, self.now_ms)
        self.recovery_point = self.log.recovery_point

    def step(self, steps: int) -> bool:
        """Let the cleaner work; says whether it has nothing left to do."""
        for _ in range(steps):
            progress = self.cleaner.step(self.now_ms)
            assert progress.stopped is None
            for removed in progress.removed:
                removed.remove(self.files)
            if progress.clean_offset is not None:
                self.checkpoint = dict(self.cleaner.clean_offsets)
            if progress.is_idle:
                return True
        return False

    def lose_snapshots(self) -> None:
        """Let the next start tell producers and transactions from the records alone."""
        for name in self.files.list_directory(DIRECTORY):
            if name.endswith(".snapshot"):
                self.files.remove(DIRECTORY / name)
        self.recovery_point = 0

    # --- what must be true ---

    def check(self) -> None:
        found = read_committed(self.log)
        self.readers_come_to_the_last_committed_values(found)
        self.tombstones_are_there_long_enough(found)
        self.producers_go_on()

    def stable(self) -> list[Written]:
        return [each for each in sorted(self.committed) if each[0] < self.log.last_stable_offset]

    def readers_come_to_the_last_committed_values(self, found: list[Row]) -> None:
        assert set(found) <= {each[:3] for each in self.committed}
        assert last_values(found) == last_values([each[:3] for each in self.stable()])

    def tombstones_are_there_long_enough(self, found: list[Row]) -> None:
        last = {key: (offset, value, time_ms) for offset, key, value, time_ms in self.stable()}
        for key, (offset, value, time_ms) in last.items():
            if value is None and self.now_ms < time_ms + RETENTION_MS:
                assert (offset, key, None) in found

    def producers_go_on(self) -> None:
        entries = self.log.producers.entries
        assert {producer: entry.last_sequence + 1 for producer, entry in entries.items()} == self.sequences
        assert {each for each in entries if entries[each].transaction_first_offset is not None} == set(self.open)

    def nothing_is_left_that_is_not_true(self) -> None:
        """Every record of the clean part is the last committed one of its key."""
        clean_offset = self.cleaner.clean_offsets.get(PARTITION, 0)
        last = {key: offset for offset, key, _, _ in self.stable() if offset < clean_offset}
        for segment in self.log.segments:
            for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
                for record in [] if batch.is_control else batch.records():
                    assert record.offset >= clean_offset or last[record.key] == record.offset


def last_values(rows: list[Row]) -> dict[bytes, tuple[int, bytes]]:
    """What a reader knows who remembers the last value of every key."""
    last: dict[bytes, tuple[int, bytes]] = {}
    for offset, key, value in rows:
        if value is None:
            last.pop(key, None)
        else:
            last[key] = (offset, value)
    return last


def read_committed(log: PartitionLog) -> list[Row]:
    """By the reads and the rules of a consumer."""
    found: list[Row] = []
    offset = log.log_start_offset
    while True:
        answer = log.read(offset, 700, up_to="last_stable")
        before = offset
        waiting = sorted(answer.aborted or [], key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for batch in RecordStream(answer.slice.read()):
            batch.check()
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if batch.is_control:
                aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                found += [(each.offset, each.key, each.value) for each in batch.records() if each.offset >= offset]
            offset = batch.next_offset
        if offset == before:
            return found


TestCompactedLog = CompactedLog.TestCase
TestCompactedLog.settings = hypothesis_settings(max_examples=MAX_EXAMPLES, stateful_step_count=50, deadline=None)
