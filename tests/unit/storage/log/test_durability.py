"""Durability by name, and group commit: who shares a sync, and what a failed one means."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import KafkaStorageError
from ottla.records import BatchBuilder
from ottla.storage.directory.offline import FailStopFiles
from ottla.storage.log.durability import CommitFailed, CommitRounds, Committed, Durability, GroupCommit, durability_of
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.settings import TopicSettings
from ottla.testing.files import MemoryFiles
from ottla.values import TopicPartition

NOW_MS = 1_000_000


class Later(Executor):
    """A pool that runs nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(Path("/data"))
    return files


@pytest.fixture
def door(files: MemoryFiles) -> FailStopFiles:
    return FailStopFiles(files, Path("/data"))


def opened(door: FailStopFiles, number: int) -> PartitionLog:
    name = TopicPartition("t", number)
    log = open_log(Path(f"/data/{name}"), name, TopicSettings(), files=door, now_ms=NOW_MS, is_clean=False)
    append(log)
    job = log.flush_job()
    job.run()
    log.flushed(job, NOW_MS)
    return log


def append(log: PartitionLog) -> int:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"v")
    return log.append_as_leader(builder.close(), leader_epoch=0, now_ms=NOW_MS).next_offset


def syncs(files: MemoryFiles) -> int:
    return sum(each.kind == "sync" for each in files.trace)


@pytest.mark.parametrize(
    ("name", "replicas", "expected"),
    [
        ("auto", 1, Durability.DURABLE),
        ("auto", 2, Durability.REPLICATED),
        ("durable", 3, Durability.DURABLE),
        ("replicated", 1, Durability.REPLICATED),
    ],
)
def test_durability_has_a_name(name: str, replicas: int, expected: Durability) -> None:
    assert durability_of(TopicSettings({"ottla.durability": name}), replicas) is expected


def test_a_hundred_appends_share_a_sync(files: MemoryFiles, door: FailStopFiles) -> None:
    log, pool = opened(door, 0), Later()
    commit = GroupCommit(pool)
    before = syncs(files)
    append(log)
    commit.mark(log)
    assert commit.step(NOW_MS) == []
    for _ in range(100):
        append(log)
        commit.mark(log)
    pool.run()
    assert commit.step(NOW_MS) == [Committed(log, 2)]
    pool.run()
    assert commit.step(NOW_MS) == [Committed(log, 102)]
    assert syncs(files) - before == 2
    assert commit.is_idle


def test_nothing_is_committed_before_the_sync_is_back(door: FailStopFiles) -> None:
    log, pool = opened(door, 0), Later()
    commit = GroupCommit(pool)
    append(log)
    commit.mark(log)
    for _ in range(3):
        assert commit.step(NOW_MS) == []
    assert log.flushed_offset == 1
    assert not commit.is_idle


def test_a_round_takes_all_logs_that_wait(door: FailStopFiles) -> None:
    logs = [opened(door, number) for number in range(3)]
    rounds = CommitRounds()
    for log in logs:
        append(log)
        rounds.mark(log)
    jobs = rounds.begin()
    assert [log for log, _ in jobs] == logs
    assert rounds.begin() == []
    for _, job in jobs:
        job.run()
    assert rounds.end([(log, job, None) for log, job in jobs], NOW_MS) == [Committed(log, 2) for log in logs]


def test_a_failed_sync_is_told_once_and_never_tried_again(files: MemoryFiles, door: FailStopFiles) -> None:
    log, neighbour = opened(door, 0), opened(door, 1)
    append(log)
    append(neighbour)
    with ThreadPoolExecutor(1) as pool:
        commit = GroupCommit(pool)
        commit.mark(log)
        files.fail(lambda each: each.kind == "sync")
        (failed,) = commit.step(NOW_MS, wait_for_round=True)
        assert isinstance(failed, CommitFailed)
        assert log.flushed_offset == 1
        with pytest.raises(KafkaStorageError, match="offline"):
            commit.mark(log)
        commit.mark(neighbour)
        (also_failed,) = commit.step(NOW_MS, wait_for_round=True)
    assert isinstance(also_failed, CommitFailed)
    assert neighbour.flushed_offset == 1
    with pytest.raises(KafkaStorageError, match="offline"):
        append(neighbour)
