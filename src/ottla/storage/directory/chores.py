"""What the chores of the log manager answer with, and whose turn it is.

1. An error of the disk is part of the answer: a chore that fails for one log goes on with the next.
2. A round visits every log once, a piece at a time; logs made meanwhile come in the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.errors import KafkaStorageError
from ottla.storage.directory.directories import CheckpointJob
from ottla.storage.directory.removals import Removal
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.partition_log import PartitionLog
from ottla.values import TopicPartition


class CleanedUp(NamedTuple):
    """What retention took out of one log; or the error that kept it from doing so."""

    topic_partition: TopicPartition
    reason: str
    segment_count: int = 0
    size_bytes: int = 0
    error: KafkaStorageError | None = None


class DueFlush(NamedTuple):
    """A log that flush.messages or flush.ms wants on the disk: run the job, then call `log.flushed`."""

    log: PartitionLog
    job: FlushJob


class Checkpointed(NamedTuple):
    """A table that was written, or the error that kept it from being written."""

    job: CheckpointJob
    error: KafkaStorageError | None = None


class Deleted(NamedTuple):
    """Files or a log that left the disk, or the error that kept them there."""

    removal: Removal
    error: KafkaStorageError | None = None


class Turn:
    """Whose turn it is in a round."""

    def __init__(self) -> None:
        self._waiting: list[TopicPartition] = []

    @property
    def is_under_way(self) -> bool:
        return bool(self._waiting)

    def take(self, everybody: Iterable[TopicPartition], limit: int | None) -> Iterator[TopicPartition]:
        """The next `limit` of the round, all that are left if there is no limit; a round that has ended begins anew."""
        if not self._waiting:
            self._waiting = sorted(everybody, reverse=True)
        count = len(self._waiting) if limit is None else min(limit, len(self._waiting))
        for _ in range(count):
            yield self._waiting.pop()


def error_of(call: Callable[[], None]) -> KafkaStorageError | None:
    """What kept a call from being done; everything else goes up."""
    try:
        call()
    except KafkaStorageError as error:
        return error
    return None
