"""Every operation on the disk fails once, in a small life of a broker's logs: open, append, roll, flush, checkpoint,
retention, removal, deletion, close.

The life is lived once to count the operations, and then again for every operation and kind of failure. Whatever fails:
an error is declared, nothing is acknowledged that a crash could take away, what was acknowledged is read as long as the
directory is online, and a restart finds all of it. A full disk leaves the directory online, and it goes on when there
is room; any other error takes it offline for good.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from ottla.errors import DiskFull, KafkaStorageError
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.loading import ProducerLimits
from ottla.storage.directory.manager import LogManager, NoLogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles, Operation
from ottla.values import TopicPartition

HOME = Path("/data/a")
NOW_MS = 1_000_000
NAME, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings(
    {
        "internal.segment.bytes": 300,
        "segment.index.bytes": 240,
        "index.interval.bytes": 50,
        "retention.bytes": 300,
        "file.delete.delay.ms": 10,
    }
)


class Life:
    """A broker's logs, told step by step; an error of the disk ends a step, never the life."""

    def __init__(self, seed: int) -> None:
        ticks = count()  # a checksum tells by the time whether it speaks of a file
        self.files = MemoryFiles(seed=seed, now_ms=lambda: next(ticks))
        self.files.make_directory(HOME.parent)
        self.files.sync_directory(Path("/"))
        self.acknowledged: dict[int, bytes] = {}
        self.written: dict[int, bytes] = {}
        self.errors: list[KafkaStorageError | NoLogDirectory] = []
        self.deletable_offset = 0
        self.logs: LogManager

    def start(self) -> None:
        self.logs = LogManager(
            [HOME],
            files=self.files,
            default_settings=SETTINGS,
            cluster_id="c",
            broker_id=1,
            producer_limits=ProducerLimits(verification_required=False),
            random_bytes=Random(7).randbytes,
        )
        self.logs.open(NOW_MS)

    def steps(self) -> Iterator[Callable[[], None]]:
        yield self.create
        for _ in range(3):
            yield from [self.append] * 2
            yield self.flush
        yield self.checkpoint
        yield from [self.append] * 2
        yield self.flush
        yield self.clean_up
        yield self.remove
        yield self.other
        yield self.checkpoint
        yield self.append
        yield self.flush

    def run(self) -> None:
        self._guarded(self.start)
        if not self.errors:
            for step in self.steps():
                self._guarded(step)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (KafkaStorageError, NoLogDirectory) as error:
            self.errors.append(error)

    @property
    def log(self) -> PartitionLog:
        return self.logs.create(NAME, TOPIC_ID, SETTINGS, NOW_MS)

    def create(self) -> None:
        self.logs.create(NAME, TOPIC_ID, SETTINGS, NOW_MS)

    def append(self) -> None:
        log = self.log
        offset, value = log.log_end_offset, b"%d" % log.log_end_offset * 30
        builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=offset)
        builder.append(NOW_MS, b"k", value)
        self.written[offset] = value  # perhaps: a crash in the middle may leave it
        log.append_as_leader(builder.close(), leader_epoch=1, now_ms=NOW_MS)

    def flush(self) -> None:
        log = self.log
        job = log.flush_job()
        job.run()
        log.flushed(job, NOW_MS)
        self.acknowledged = {at: self.written[at] for at in range(log.flushed_offset)}
        log.update_high_watermark(log.flushed_offset)

    def checkpoint(self) -> None:
        for job in self.logs.checkpoint_jobs():
            self._guarded(job.run)

    def clean_up(self) -> None:
        self.deletable_offset = self.log.active.base_offset
        done = [each for each in self.logs.clean_up(NOW_MS) if each is not None]
        self.errors += [each.error for each in done if each.error is not None]

    def remove(self) -> None:
        for removal in self.logs.removals_due(NOW_MS + 10):
            self._guarded(removal.run)

    def other(self) -> None:
        """A partition that comes and goes."""
        self.logs.create(OTHER, TOPIC_ID, SETTINGS, NOW_MS)
        self.logs.delete(OTHER, NOW_MS)
        self.remove()

    # --- what must be true --------------------------------------------------------------------------------------------

    def check(self, log: PartitionLog) -> None:
        found: dict[int, bytes] = {}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for batch in RecordStream(log.read(offset, 1 << 20, up_to="log_end").slice.read()):
                batch.check()
                found |= {record.offset: record.value or b"" for record in batch.records()}
                offset = batch.next_offset
        assert log.log_start_offset <= self.deletable_offset
        promised = {at: value for at, value in self.acknowledged.items() if at >= log.log_start_offset}
        assert promised.items() <= found.items()
        assert found.items() <= self.written.items()

    def check_running(self, failed: Operation, *, is_full: bool) -> None:
        """The directory is offline and says so, or everything goes on."""
        failures = self.logs.failures()
        # Retention goes on without room for the epochs that ended: the next start forgets them by itself. Without its
        # checksum a table is trusted.
        is_harmless = is_full and failed.path.name.startswith(("leader-epoch-checkpoint", "ottla-checksums"))
        assert self.errors or is_harmless, "the failure was kept secret"
        if failures:
            assert [each.is_last for each in failures] == [True]
            for call in (self.append, self.flush, self.create):
                with pytest.raises(KafkaStorageError):
                    call()
            return
        assert is_full
        assert all(isinstance(each, DiskFull) for each in self.errors)
        self.check(self.log)
        self.append()
        self.flush()
        self.check(self.log)

    def check_restart(self) -> None:
        self.files.crash()
        self.check_recovered()

    def check_recovered(self) -> None:
        self.start()
        if self.acknowledged:
            log = self.logs.log(NAME)
            assert log is not None
            self.check(log)
        self.logs.close()
        assert not self.files.open_files


def operations() -> int:
    life = Life(0)
    before = len(life.files.trace)
    life.run()
    assert not life.errors
    assert life.deletable_offset > 0
    assert life.acknowledged.keys() == set(range(9))
    return len(life.files.trace) - before


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("part", range(4))
def test_every_operation_may_fail_once(error: int, part: int) -> None:
    for number in range(part + 1, operations() + 1, 4):
        life = Life(number)
        before = len(life.files.trace)
        life.files.fail(number, error)
        life.run()
        failed = life.files.trace[before + number - 1]
        try:
            if isinstance(life.errors[0] if life.errors else None, NoLogDirectory):
                assert not life.acknowledged
            else:
                life.check_running(failed, is_full=error == errno.ENOSPC)
            life.check_restart()
        except AssertionError as broken:
            raise AssertionError(f"operation {number} of the life failed: {failed}") from broken


def test_a_disk_that_fills_up_at_any_byte_goes_on_when_there_is_room() -> None:
    for free_bytes in range(0, 6000, 37):
        life = Life(free_bytes)
        life.start()
        life.create()
        life.files.fill(free_bytes)
        for step in list(life.steps())[1:]:
            life._guarded(step)
        assert not life.logs.failures()
        assert all(isinstance(each, DiskFull) for each in life.errors)
        life.check(life.log)
        life.files.fill(1 << 20)
        life.append()
        life.flush()
        life.check(life.log)
        life.check_restart()
