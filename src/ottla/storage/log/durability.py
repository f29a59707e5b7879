"""When a record counts as kept: the durability of a topic by name, and group commit.

    durable       acknowledged after a sync to this disk
    replicated    acknowledged when the in-sync replicas have it; the kernel writes it when it likes
    auto          durable where a partition has one replica, replicated where it has more

    commit = GroupCommit(pool)
    appended = log.append_as_leader(...)
    commit.mark(log)
    for each in commit.step(now_ms, wait_for_round=True):           # Committed(log, offset) or CommitFailed(log, error)
        ...                                               # what is below `offset` may be acknowledged

1. Group commit: while one round of syncs runs, logs that need one are gathered, and the next round takes them all. So a
   hundred appenders that wait share one fdatasync, and a lone one waits for one.
2. `CommitRounds` decides and runs nothing; `GroupCommit` lets the threads of a pool run the jobs and nothing else. All
   state belongs to the one who calls `mark` and `step`. (The broker has the same on its event loop.)
3. A failed sync is told once for each log of the round that it concerns, and never tried again: `mark` refuses that log
   from then on. The door of its directory is closed too (offline.py), so the others in there fail as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, Future, wait
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from ottla.errors import DiskFull, KafkaStorageError
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition


class Durability(StrEnum):
    """What an acknowledgement means; `auto` is one of the two."""

    DURABLE = "durable"
    REPLICATED = "replicated"


def durability_of(settings: TopicSettings, replica_count: int) -> Durability:
    """What a topic's ottla.durability means for a partition with that many replicas."""
    if settings.ottla_durability == "auto":
        return Durability.DURABLE if replica_count <= 1 else Durability.REPLICATED
    return Durability(settings.ottla_durability)


class Committed(NamedTuple):
    """Everything of the log below `offset` is on the disk."""

    log: PartitionLog
    offset: int


class CommitFailed(NamedTuple):
    """The log's directory does not work any more; nothing that is not acknowledged yet ever may be."""

    log: PartitionLog
    error: KafkaStorageError


Outcome: TypeAlias = Committed | CommitFailed
Results: TypeAlias = Iterable[tuple[PartitionLog, FlushJob, KafkaStorageError | None]]


class CommitRounds:
    """Which logs are synced next."""

    def __init__(self) -> None:
        self.is_running = False
        self._marked: dict[TopicPartition, PartitionLog] = {}
        self._failed: dict[TopicPartition, KafkaStorageError] = {}
        self._unbegun: list[Outcome] = []

    @property
    def is_idle(self) -> bool:
        return not self.is_running and not self._marked

    def mark(self, log: PartitionLog) -> None:
        """This log has something that must reach the disk; raises if its directory has failed before."""
        error = self._failed.get(log.topic_partition)
        if error is not None:
            raise KafkaStorageError(f"{log.topic_partition} is offline: {error}")
        self._marked[log.topic_partition] = log

    def begin(self) -> list[tuple[PartitionLog, FlushJob]]:
        """The jobs of the next round; none while one is running or when nothing is marked."""
        if self.is_running or not self._marked:
            return []
        taken, self._marked = self._marked, {}
        jobs: list[tuple[PartitionLog, FlushJob]] = []
        for log in taken.values():
            try:
                jobs.append((log, log.flush_job()))
            except KafkaStorageError as error:
                self._unbegun.append(self._failure(log, error))
        self.is_running = bool(jobs)
        return jobs

    def end(self, results: Results, now_ms: int) -> list[Outcome]:
        """The jobs were run; what they brought."""
        self.is_running = False
        outcomes, self._unbegun = self._unbegun, []
        for log, job, error in results:
            if error is not None:
                outcomes.append(self._failure(log, error))
            else:
                log.flushed(job, now_ms)
                outcomes.append(Committed(log, log.flushed_offset))
        return outcomes

    def _failure(self, log: PartitionLog, error: KafkaStorageError) -> CommitFailed:
        self._marked.pop(log.topic_partition, None)
        if not isinstance(error, DiskFull):  # on a full disk nothing is lost; the next mark may find room
            self._failed[log.topic_partition] = error
        return CommitFailed(log, error)


class GroupCommit:
    """Rounds of group commit for an owner without an event loop; see the top of this file."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._rounds = CommitRounds()
        self._running: list[tuple[PartitionLog, FlushJob, Future[KafkaStorageError | None]]] = []

    @property
    def is_idle(self) -> bool:
        return self._rounds.is_idle

    def mark(self, log: PartitionLog) -> None:
        """This log has something that must reach the disk."""
        self._rounds.mark(log)

    def step(self, now_ms: int, *, wait_for_round: bool = False) -> list[Outcome]:
        """End the round that is running, if it is done or if asked to wait for it, and begin the next."""
        if not self._running:
            self._begin()
        if wait_for_round:
            wait([future for _, _, future in self._running])
        if not all(future.done() for _, _, future in self._running):
            return []
        results = [(log, job, future.result()) for log, job, future in self._running]
        self._running = []
        outcomes = self._rounds.end(results, now_ms)
        self._begin()
        return outcomes

    def _begin(self) -> None:
        self._running = [(log, job, self._pool.submit(_run, job)) for log, job in self._rounds.begin()]


def _run(job: FlushJob) -> KafkaStorageError | None:
    try:
        job.run()
    except KafkaStorageError as error:
        return error
    return None
