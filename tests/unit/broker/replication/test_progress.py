"""Whoever waits for a partition hears of it: committed, synced, failed, or gone from this broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.replication.progress import PartitionProgress
from ottla.errors import KafkaStorageError, NotLeaderOrFollower
from ottla.testing.clock import ManualClock
from ottla.values import TopicPartition

NAME = TopicPartition("orders", 0)


class FakePartition:
    """A partition whose numbers are set by hand."""

    name = NAME
    in_sync = None
    is_leader = True
    in_sync_count = min_in_sync_count = 1

    def __init__(self, *, needs_flush: bool = False) -> None:
        self.needs_flush = needs_flush
        self.log_end_offset = self.high_watermark = 0
        self.offline: KafkaStorageError | None = None
        self.log = SimpleNamespace(flushed_offset=0)

    def advance(self) -> None: ...


def make_progress() -> tuple[PartitionProgress, list[TopicPartition]]:
    notified: list[TopicPartition] = []
    made = PartitionProgress(
        None, clock=ManualClock(), wake=lambda: None, notify=notified.append, failed=lambda partition, error: None
    )
    made._flusher.mark = lambda partition: None  # type: ignore[method-assign]  # a test says when something is synced
    return made, notified


def on_a_loop(test: Any) -> Any:
    return lambda: asyncio.run(test())


@on_a_loop
async def test_what_advances_reaches_commits_purgatories_and_coordinators() -> None:
    progress, notified = make_progress()
    partition: Any = FakePartition()
    commit = progress.commits.committed(partition, 2)
    waiting = [
        each.wait(lambda: partition.high_watermark >= 2, [NAME], 1000)
        for each in (progress.produce_purgatory, progress.fetch_purgatory)
    ]
    partition.high_watermark = 1
    progress.advanced(partition)
    assert [each.done() for each in (commit, *waiting)] == [False] * 3
    partition.high_watermark = 2
    progress.advanced(partition)
    assert [each.result() for each in (commit, *waiting)] == [True, True, True]
    assert notified == [NAME, NAME]


@on_a_loop
async def test_whoever_waits_for_a_partition_that_leaves_hears_of_it() -> None:
    progress, _ = make_progress()
    partition: Any = FakePartition()
    is_here = True
    commit = progress.commits.committed(partition, 2)
    waiting = [
        each.wait(lambda: not is_here, [NAME], 1000) for each in (progress.produce_purgatory, progress.fetch_purgatory)
    ]
    is_here = False
    progress.forget(NAME)
    assert [each.result() for each in waiting] == [True, True]
    with pytest.raises(NotLeaderOrFollower):
        commit.result()


@on_a_loop
async def test_a_sync_is_done_when_all_that_was_there_is_on_the_disk() -> None:
    progress, _ = make_progress()
    partition: Any = FakePartition(needs_flush=True)
    partition.log_end_offset = 5
    synced = progress.synced(partition)
    partition.log.flushed_offset = 3
    progress.flushed(partition)
    assert not synced.done()
    partition.log.flushed_offset = 5
    progress.flushed(partition)
    assert synced.result() is None


@on_a_loop
async def test_whoever_waits_for_a_disk_that_fails_hears_of_it() -> None:
    progress, _ = make_progress()
    partition: Any = FakePartition(needs_flush=True)
    partition.log_end_offset = 5
    synced, commit = progress.synced(partition), progress.commits.committed(partition, 5)
    partition.offline = KafkaStorageError("the disk")
    progress.flushed(partition)
    assert synced.done()
    with pytest.raises(KafkaStorageError):
        commit.result()


@on_a_loop
async def test_at_the_end_everybody_is_answered() -> None:
    progress, _ = make_progress()
    waiting = [
        each.wait(lambda: False, [NAME], 1000) for each in (progress.produce_purgatory, progress.fetch_purgatory)
    ]
    progress.close()
    assert [each.result() for each in waiting] == [False, False]
