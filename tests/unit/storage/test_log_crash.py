"""The power goes at every single operation on the disk; what is found then must be a log that was promised.

A story is a row of steps on a log. It is told once to count the operations, and then again for every operation, which
does not happen, because the power goes there; after that the disk keeps, loses and tears what was not synced. What
recovery finds must be a prefix of what had been written, hold everything that was flushed, and be found again by a
second recovery, to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.records import BatchBuilder, RecordStream
from ottla.records.control import EndTransactionMarker, end_transaction_batch
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.segment.segment import Segment
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles, Operation
from ottla.values import TopicPartition

DIRECTORY = Path("/data/t-0")
SETTINGS = TopicSettings({"internal.segment.bytes": 600, "segment.index.bytes": 240, "index.interval.bytes": 100})
COMPACTED = SETTINGS.for_topic({"cleanup.policy": "compact"})
NOW_MS = 1_000_000

Records = dict[int, bytes]


class PowerLoss(BaseException):
    """Nobody may catch it."""


def opened(files: MemoryFiles, settings: TopicSettings, recovery_point: int, log_start_offset: int) -> PartitionLog:
    return open_log(
        DIRECTORY,
        TopicPartition("t", 0),
        settings,
        files=files,
        now_ms=NOW_MS,
        is_clean=False,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        verification_required=False,
    )


class Story:
    """A log, and what may be found of it after a crash: `states` are the contents that the step under way allows."""

    def __init__(self, seed: int) -> None:
        self.files = MemoryFiles(seed=seed)
        self.files.make_directory(DIRECTORY.parent)
        self.files.sync_directory(Path("/"))
        self.settings = SETTINGS
        self.records: Records = {}
        self.states: list[Records] = [{}]
        self.flushed_offset = self.recovery_point = self.log_start_offset = 0
        self.deletable_offset = 0
        self.sequences: dict[int, int] = {}
        self.log: PartitionLog

    def open(self) -> None:
        self.log = opened(self.files, self.settings, self.recovery_point, self.log_start_offset)

    def append(self, value: bytes, producer: int = 7, *, transactional: bool = False) -> None:
        sequence = self.sequences.get(producer, 0)
        builder = BatchBuilder(
            producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=transactional
        )
        builder.append(NOW_MS, b"k", value)
        self.sequences[producer] = sequence + 1
        self._append(builder.close(), value)

    def abort(self, producer: int) -> None:
        marker = EndTransactionMarker(commit=False, coordinator_epoch=0)
        content = end_transaction_batch(marker, producer_id=producer, producer_epoch=0, timestamp_ms=NOW_MS)
        self._append(content, b"", AppendOrigin.COORDINATOR)

    def _append(self, content: bytes, value: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        after = {**self.records, self.log.log_end_offset: value}
        self.states = [self.records, after]
        self.log.append_as_leader(content, leader_epoch=1, now_ms=NOW_MS, origin=origin, transaction_version=1)
        self._is_now(after)

    def _is_now(self, records: Records) -> None:
        self.records, self.states = records, [records]

    def roll(self) -> None:
        self.log.roll(NOW_MS)

    def flush(self) -> None:
        job = self.log.flush_job()
        job.run()
        self.log.flushed(job, NOW_MS)
        self.flushed_offset, self.recovery_point = self.log.flushed_offset, self.log.recovery_point

    def truncate(self, offset: int) -> None:
        after = {at: value for at, value in self.records.items() if at < offset}
        self.states = [self.records, after]
        # The owner writes the checkpoint before it truncates, as Kafka does when it loses its office.
        self.flushed_offset = min(self.flushed_offset, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log.truncate_to(offset, NOW_MS).remove(self.files)
        self._is_now(after)

    def delete_oldest(self, count: int) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.deletable_offset = self.log.segments.base_offsets[count]
        self.log.delete_segments(list(self.log.segments)[:count], "story", NOW_MS).remove(self.files)
        self.log_start_offset = self.log.log_start_offset

    def compact(self, count: int, every: int) -> None:
        """Swap the oldest segments for one that has only every so-manieth record."""
        old = list(self.log.segments)[:count]
        end = self.log.segments.higher(old[-1].base_offset)
        assert end is not None
        gone = [at for at in self.records if at < end.base_offset and at % every]
        after = {at: value for at, value in self.records.items() if at not in gone}
        self.states = [self.records, after]
        made = Segment.create(
            self.files, DIRECTORY, old[0].base_offset, self.log.limits, now_ms=NOW_MS, suffix=".cleaned"
        )
        for segment in old:
            for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
                if batch.base_offset in after:
                    content = segment.records.file.read_at(batch.position, batch.size_bytes)
                    made.append(batch.last_offset, [batch], [content])
        self.log.replace_segments([made], old).remove(self.files)
        self._is_now(after)

    def close(self) -> None:
        self.log.close()
        self.flushed_offset, self.recovery_point = self.log.flushed_offset, self.log.recovery_point


def contents(log: PartitionLog) -> Records:
    found: Records = {}
    for segment in log.segments:
        for batch in RecordStream(segment.records.file.read_at(0, segment.size_bytes)):
            batch.check()
            for record in batch.records():
                found[record.offset] = b"" if batch.is_control else record.value or b""
    return found


def bytes_of(files: MemoryFiles) -> dict[str, bytes]:
    """All files; indexes without the padding that a new one has."""
    contents = {name: files.read_bytes(DIRECTORY / name) for name in files.list_directory(DIRECTORY)}
    return {name: each.rstrip(b"\0") if name.endswith("index") else each for name, each in contents.items()}


def is_promised(story: Story, found: Records, first_offset: int) -> bool:
    """Whether these records are a prefix of an allowed state, from some start on, with everything that was flushed."""
    assert first_offset <= story.deletable_offset
    end = max(found, default=first_offset - 1) + 1
    for state in story.states:
        expected = {at: value for at, value in state.items() if first_offset <= at < end}
        has_flushed = all(at in found for at in state if first_offset <= at < story.flushed_offset)
        if found == expected and has_flushed:
            return True
    return False


def check_after_crash(story: Story) -> None:
    story.files.crash()
    check_recovered(story, story.files)


def check_recovered(story: Story, files: MemoryFiles) -> None:
    log = opened(files, story.settings, story.recovery_point, story.log_start_offset)
    found = contents(log)
    first = log.segments.first
    assert first is not None
    assert is_promised(story, found, first.base_offset), (found, story.states, story.flushed_offset)
    assert set(log.producers.entries) <= set(story.sequences)
    producers = {
        key: (each.last_sequence, each.transaction_first_offset) for key, each in log.producers.entries.items()
    }
    facts = (log.log_start_offset, log.log_end_offset, log.epochs.entries, producers)
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    log.close(is_clean=False)
    before = bytes_of(files)
    again = opened(files, story.settings, story.recovery_point, story.log_start_offset)
    assert contents(again) == found
    assert bytes_of(files) == before
    producers = {
        key: (each.last_sequence, each.transaction_first_offset) for key, each in again.producers.entries.items()
    }
    assert (again.log_start_offset, again.log_end_offset, again.epochs.entries, producers) == facts
    assert again.aborted_transactions(again.log_start_offset, again.log_end_offset) == aborted
    again.append_as_leader(_plain(b"after"), leader_epoch=2, now_ms=NOW_MS)
    assert contents(again) == {**found, facts[1]: b"after"}


def _plain(value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", value)
    return builder.close()


# --- stories ---------------------------------------------------------------------------------------------------------


def appends_and_rolls(story: Story) -> None:
    story.open()
    for number in range(12):
        story.append(b"%d" % number * 60, producer=number % 2)
        if number in (4, 9):
            story.flush()


def transactions(story: Story) -> None:
    story.open()
    for number in range(6):
        story.append(b"%d" % number * 60, producer=3 + number % 2, transactional=True)
        if number % 2:
            story.abort(3 + number // 2 % 2)
        if number == 3:
            story.flush()
            story.roll()


def truncations(story: Story) -> None:
    story.open()
    for number in range(9):
        story.append(b"%d" % number * 100)
    story.flush()
    story.truncate(5)
    story.sequences[7] = 5
    for number in range(5):
        story.append(b"n%d" % number * 50)
    story.flush()
    story.truncate(1)
    story.sequences[7] = 1
    story.append(b"end")


def deletions(story: Story) -> None:
    story.open()
    for number in range(10):
        story.append(b"%d" % number * 150)
        if number == 5:
            story.flush()
    story.delete_oldest(2)
    story.append(b"more")
    story.flush()


def swaps(story: Story) -> None:
    story.open()
    for number in range(10):
        story.append(b"%d" % number * 120)
    story.flush()
    # Compacted only from here on: where offsets may have gaps, a lost end of a segment looks like one.
    story.settings = story.log.settings = COMPACTED
    story.compact(2, every=2)
    story.append(b"more")
    story.flush()
    story.compact(2, every=3)


def restarts(story: Story) -> None:
    story.open()
    for number in range(5):
        story.append(b"%d" % number * 100)
    story.close()
    story.open()
    story.append(b"more")
    story.flush()
    story.append(b"most")


STORIES = [appends_and_rolls, transactions, truncations, deletions, swaps, restarts]


def operations_of(tell: Callable[[Story], None]) -> int:
    story = Story(0)
    before = len(story.files.trace)
    tell(story)
    return len(story.files.trace) - before


def tell_until(tell: Callable[[Story], None], operation: int, seed: int) -> Story:
    story = Story(seed)
    left = operation

    def power_goes(_: Operation) -> bool:
        nonlocal left
        if left == 0:
            raise PowerLoss
        left -= 1
        return False

    story.files.fail(power_goes, for_ever=True)
    with pytest.raises(PowerLoss):
        tell(story)
    return story


@pytest.mark.parametrize("tell", STORIES)
def test_a_crash_at_any_operation_leaves_a_prefix_with_all_that_was_flushed(tell: Callable[[Story], None]) -> None:
    for operation in range(operations_of(tell)):
        check_after_crash(tell_until(tell, operation, seed=operation))


@pytest.mark.long
@pytest.mark.parametrize("tell", STORIES)
@pytest.mark.parametrize("seed", range(100))
def test_a_crash_at_any_operation_with_many_kinds_of_loss(tell: Callable[[Story], None], seed: int) -> None:
    for operation in range(operations_of(tell)):
        check_after_crash(tell_until(tell, operation, seed=seed * 1000 + operation))
