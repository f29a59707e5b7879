"""More files than a process may have open: the idle ones are closed, nobody notices, and nothing goes offline."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.unit.storage.directory.test_manager import NOW_MS, append, create, flush, manager, name, records

from ottla.errors import KafkaStorageError, TooManyOpenFiles
from ottla.storage.directory.manager import LogManager
from ottla.storage.directory.offline import FailStopFile, FailStopFiles
from ottla.storage.directory.open_files import BUDGET_MIN, OpenFiles, budget_of
from ottla.storage.files import DiskFiles
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing.files import MemoryFiles

PATH = Path("/data/a")
ROUNDS = 200


def limited(limit: int) -> OpenFiles:
    open_files = OpenFiles(None)
    open_files.limit = limit
    return open_files


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(PATH)
    return files


@pytest.fixture
def door(files: MemoryFiles) -> FailStopFiles:
    return FailStopFiles(files, PATH, limited(3))


def written(door: FailStopFiles, number: int) -> FailStopFile:
    file = door.open(PATH / str(number), create=True)
    file.write_at(0, [b"%d" % number])
    return file


def test_connections_keep_a_part_of_what_a_process_may_open() -> None:
    assert budget_of(1024) == 768
    assert budget_of(1 << 20) == 3 << 18
    assert budget_of(256) == 128
    assert budget_of(64) == BUDGET_MIN


def test_no_more_files_are_open_than_the_budget_has_and_all_of_them_work(
    files: MemoryFiles, door: FailStopFiles
) -> None:
    opened = [written(door, number) for number in range(10)]
    assert len(files.open_files) == 3
    for number, file in enumerate(opened):
        assert file.read_at(0, 9) == b"%d" % number
        file.write_at(1, [b"!"])
        file.sync()
        assert file.size() == 2
        file.truncate(1)
        assert len(files.open_files) <= 3
    for file in opened:
        file.close()
    assert not files.open_files
    assert not door.open_files


def test_what_is_in_use_stays_open(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH, limited(8))
    busy = written(door, 0)
    for number in range(1, 100):
        busy.write_at(0, [b"x"])
        written(door, number)
    openings = [each for each in files.trace if each.kind == "open" and each.path == PATH / "0"]
    assert len(openings) <= 5, "it goes only when all others were used since the last look, too"


def test_a_file_that_is_closed_is_not_opened_again(door: FailStopFiles) -> None:
    file = written(door, 0)
    for number in range(1, 5):
        written(door, number)
    assert file.file is None
    file.close()
    with pytest.raises(KafkaStorageError, match="it was closed"):
        file.read_at(0, 1)
    assert door.failure is None


def test_a_file_is_found_under_the_name_that_it_has_by_now(files: MemoryFiles, door: FailStopFiles) -> None:
    files.make_directory(PATH / "t-0")
    file = door.open(PATH / "t-0" / "x.log", create=True)
    file.write_at(0, [b"records"])
    door.rename(PATH / "t-0" / "x.log", PATH / "t-0" / "x.log.deleted")
    door.rename(PATH / "t-0", PATH / "t-0.1-delete")
    for number in range(1, 5):
        written(door, number)
    assert file.file is None
    assert file.path == PATH / "t-0.1-delete" / "x.log.deleted"
    assert file.read_at(0, 9) == b"records"


def test_a_file_that_was_removed_meanwhile_is_no_failure_of_the_disk(files: MemoryFiles, door: FailStopFiles) -> None:
    file = written(door, 0)
    for number in range(1, 5):
        written(door, number)
    door.remove(PATH / "0")
    with pytest.raises(KafkaStorageError, match="removed meanwhile"):
        file.read_at(0, 1)
    assert door.failure is None


def test_when_the_system_has_no_number_left_others_are_closed(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH, OpenFiles(None))
    opened = [written(door, number) for number in range(10)]
    files.open_limit = 10  # connections took the rest
    opened.append(written(door, 10))
    assert opened[0].read_at(0, 9) == b"0"
    assert door.failure is None


def test_when_nothing_can_be_closed_the_call_is_refused_and_the_directory_stays(files: MemoryFiles) -> None:
    door = FailStopFiles(files, PATH, OpenFiles(None))
    files.open_limit = 0
    with pytest.raises(TooManyOpenFiles, match="cannot open"):
        door.open(PATH / "x", create=True)
    with pytest.raises(TooManyOpenFiles):
        door.replace_bytes(PATH / "x", b"")
    assert door.failure is None
    files.open_limit = None
    assert written(door, 1).read_at(0, 9) == b"1"


def test_a_number_is_good_while_its_file_is_closed_by_another_thread(tmp_path: Path) -> None:
    door = FailStopFiles(DiskFiles(), tmp_path, limited(1))
    first = door.open(tmp_path / "0", create=True)
    first.write_at(0, [b"first"])
    number = first.fileno()
    assert number is not None
    other = threading.Thread(target=lambda: door.open(tmp_path / "1", create=True).write_at(0, [b"other"]))
    other.start()
    other.join()
    assert first.file is None, "the budget is one file"
    assert os.pread(number, 9, 0) == b"first"


def test_threads_that_take_files_from_each_other_read_what_they_wrote(tmp_path: Path) -> None:
    door = FailStopFiles(DiskFiles(), tmp_path, limited(2))
    handles = [door.open(tmp_path / str(number), create=True) for number in range(6)]
    wrong: list[object] = []

    def use(number: int) -> None:
        try:
            for turn in range(ROUNDS):
                content = b"%d %d" % (number, turn)
                handles[number].write_at(0, [content])
                handles[number].sync()
                if handles[number].read_at(0, len(content)) != content:
                    wrong.append(content)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for handle in handles:
        handle.close()
    assert not door.open_files


# --- many partitions -------------------------------------------------------------------------------------------------


def many(files: MemoryFiles, count: int) -> tuple[LogManager, list[PartitionLog]]:
    logs = manager(files, PATH)
    logs.open(NOW_MS)
    return logs, [create(logs, number) for number in range(count)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_with_more_partitions_than_numbers_writes_stops_and_starts(is_clean: bool) -> None:
    files = MemoryFiles(open_limit=40)
    files.make_directory(PATH.parent)
    logs, opened = many(files, 60)
    for log in opened:
        append(log, 3)
        flush(log)
    assert all(len(records(log)) == 3 for log in opened)
    assert len(files.open_files) <= 40
    for job in logs.checkpoint_jobs():
        job.run()
    logs.close(is_clean=is_clean)
    again = manager(files, PATH)
    again.open(NOW_MS)
    found = [again.log(name(number)) for number in range(60)]
    assert all(log is not None and len(records(log)) == 3 for log in found)
    assert not again.failures()
    again.close()


def test_one_log_that_finds_no_number_refuses_and_goes_on_later(files: MemoryFiles) -> None:
    logs, (log,) = many(files, 1)
    append(log)
    for handle in list(logs.open_files._open):
        handle.detach()
    files.open_limit = 0
    with pytest.raises(TooManyOpenFiles):
        append(log)
    files.open_limit = None
    append(log)
    assert len(records(log)) == log.log_end_offset == 2
    assert not logs.failures()
    logs.close()
