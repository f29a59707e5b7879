"""A sync fails, the broker is started again on the same machine, the next sync succeeds, and then the power goes.

After a failed sync the kernel has bytes in its memory that are not on the disk, shows them to every reader, and says
yes to the next sync without writing them (testing/files.py, 2). What is acknowledged after the restart must be there
all the same: so what was not synced for certain is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder, RecordStream
from ottla.storage.directory.loading import ProducerLimits
from ottla.storage.directory.manager import LogManager, NoLogDirectory
from ottla.storage.directory.offline import FAILED
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles, Operation
from ottla.values import TopicPartition

DATA = Path("/data/a")
NOW_MS = 1_000_000
NAME = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
SETTINGS = TopicSettings({"internal.segment.bytes": 300, "segment.index.bytes": 240, "index.interval.bytes": 50})


def new_disk(seed: int) -> MemoryFiles:
    files = MemoryFiles(seed=seed)
    files.make_directory(DATA.parent)
    files.sync_directory(Path("/"))
    return files


def started(files: MemoryFiles) -> LogManager:
    logs = LogManager(
        [DATA],
        files=files,
        default_settings=SETTINGS,
        cluster_id="c",
        broker_id=1,
        producer_limits=ProducerLimits(verification_required=False),
        random_bytes=Random(7).randbytes,
    )
    logs.open(NOW_MS)
    return logs


def append(log: PartitionLog, value: bytes) -> None:
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", value)
    log.append_as_leader(builder.close(), leader_epoch=1, now_ms=NOW_MS)


def flush(log: PartitionLog) -> None:
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)


def values(log: PartitionLog) -> list[bytes | None]:
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for batch in RecordStream(log.read(offset, 1 << 20, up_to="log_end").slice.read()):
            batch.check()
            found += [record.value for record in batch.records()]
            offset = batch.next_offset
    return found


def is_sync_of_records(operation: Operation) -> bool:
    return operation.kind == "sync" and operation.path.suffix == ".log"


def is_sync_of_names(operation: Operation) -> bool:
    return operation.kind == "sync_directory"


@pytest.mark.parametrize("is_meant", [is_sync_of_records, is_sync_of_names])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_acknowledged_after_a_failed_sync_survives_a_power_cut(
    seed: int, is_meant: Callable[[Operation], bool]
) -> None:
    files = new_disk(seed)
    log = started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    append(log, b"first" * 20)
    flush(log)
    for number in range(1 + seed % 5):
        append(log, b"unsynced %d" % number * 10)
    files.fail(is_meant)
    try:
        flush(log)
    except KafkaStorageError:
        pass
    else:
        assert is_meant is is_sync_of_names  # there were none
        files.mend()
    files.kill()

    log = started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    append(log, b"last" * 20)
    flush(log)
    acknowledged = values(log)
    files.crash()

    found = started(files).log(NAME)
    assert found is not None
    assert acknowledged[0] == b"first" * 20
    assert values(found) == acknowledged


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_was_made_just_before_a_kill_has_a_name_when_it_is_acknowledged(seed: int) -> None:
    files = new_disk(seed)
    started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    files.kill()
    log = started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    append(log, b"value")
    flush(log)
    files.crash()
    found = started(files).log(NAME)
    assert found is not None
    assert values(found) == [b"value"]


def test_a_directory_that_failed_is_marked_until_a_start_has_put_it_right() -> None:
    files = new_disk(0)
    log = started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    append(log, b"value")
    files.fail(is_sync_of_records)
    with pytest.raises(KafkaStorageError):
        flush(log)
    assert files.exists(DATA / FAILED)
    files.kill()
    files.fail(is_sync_of_records)  # and again, in the middle of it
    with pytest.raises(NoLogDirectory):
        started(files)
    assert files.exists(DATA / FAILED)
    files.kill()
    assert started(files).log(NAME) is not None
    assert not files.exists(DATA / FAILED)


def test_a_kill_alone_writes_nothing_again() -> None:
    files = new_disk(0)
    log = started(files).create(NAME, TOPIC_ID, SETTINGS, NOW_MS)
    append(log, b"value")
    flush(log)
    files.kill()
    files.trace.clear()
    started(files)
    assert [each for each in files.trace if each.kind == "write" and each.path.suffix == ".log"] == []
