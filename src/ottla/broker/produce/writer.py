"""When what clients write is appended, and when it is over: from a partition's queue to its commit.

    writer.write(partition, write)      # queued; appended now, with the next round of syncs, or at the end of this turn
    writer.append_all()                 # what is queued everywhere, now

    queue ──► append ──► counted ──► committed? ──► write.end()
    replication/writes.py            Commitment: a place in the line of the partition (replication/commits.py)

1. A write that waits for a sync is appended when the round of syncs begins that it waits for
   (housekeeping/flusher.py), one that waits for followers at the end of this turn of the loop, with all that came
   meanwhile on whichever connection (decision 0145). What waits for nothing is appended at once. So is what is not
   plain, because nobody knows how long it takes, and what is large: it costs more for its bytes than for itself, and
   its memory is wanted for what comes next.
2. Whatever was appended together and waits for the same has one place in the line for the commit. With acks=all all is
   waited for; with acks=1 what one durable replica has not synced yet, because a producer that was answered can read
   it.
3. Nothing here raises because of a write: who calls has a request of his own to serve.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.replication.writes import Appended, Write
from ottla.errors import (
    BrokerError,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
)
from ottla.metrics import OTHER
from ottla.protocol.api import APIS

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PRODUCE: Final = APIS[0]
LARGE_BYTES: Final = 65_536
"""A queue with more bytes is appended at once."""

log = logging.getLogger(__name__)


class Writer:
    """Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queued: dict[Partition, int] = {}  # bytes that wait in each
        self._is_planned = False

    def write(self, partition: Partition, write: Write) -> None:
        """It is in the order of the partition from now on."""
        partition.queued.append(write)
        if not (
            write.is_plain and write.acks and partition.commits_later(write.acks) and self._may_wait(partition, write)
        ):
            self.append(partition)
        elif partition.is_durable:
            self._broker.progress.expect(partition)
        elif not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._append_planned)

    def _may_wait(self, partition: Partition, write: Write) -> bool:
        """Whether it can wait for others: there is room, and the broker goes on."""
        size_bytes = self._queued.get(partition, 0) + sum(map(len, write.batches))
        if size_bytes > LARGE_BYTES or self._broker.progress.commits.is_closed:
            return False
        self._queued[partition] = size_bytes
        return True

    def _append_planned(self) -> None:
        self._is_planned = False
        self.append_all()

    def append_all(self) -> None:
        """What is queued in all partitions."""
        if self._queued:
            for partition in list(self._queued):
                self.append(partition)

    def append(self, partition: Partition) -> None:
        """What is queued in this one."""
        has_waited = bool(self._queued) and self._queued.pop(partition, None) is not None
        queued = partition.queued
        if has_waited and self._broker.progress.commits.is_closed:  # the broker stops: nobody would hear of it
            partition.queued = []
            self._refuse(queued, RequestTimedOut())
        try:
            for appended in partition.append_queued(self._broker.clock.now_ms()):
                self._appended(partition, appended)
        except Exception:
            log.exception("%s: what clients wrote cannot be appended", partition.name)
            self._refuse(queued, UnknownServerError())

    def _refuse(self, writes: list[Write], error: BrokerError) -> None:
        for write in writes:
            write.refuse(error)
            write.end()

    # -- what was appended ---------------------------------------------------------------------------------------------

    def _appended(self, partition: Partition, appended: Appended) -> None:
        broker, topic = self._broker, partition.name.topic
        if appended.batch_count:
            broker.progress.appended(partition)
            broker.topic_metrics.produced(topic, appended.size_bytes, appended.record_count, appended.batch_count)
        waiting: dict[tuple[bool, int], list[Write]] = {}
        high_watermark = partition.end.high_watermark
        for write in appended.writes:
            if write.has_errors:
                self._count_refusals(topic, write)
            if write.next_offset > high_watermark and _waits_for_commit(partition, write.acks):
                waiting.setdefault((write.acks == ACKS_ALL, write.timeout_ms), []).append(write)
            else:
                write.end()
        for (wants_all, timeout_ms), writes in waiting.items():
            self._wait(Commitment(self, partition, writes, wants_all), timeout_ms)

    def _wait(self, commitment: Commitment, timeout_ms: int) -> None:
        commits = self._broker.progress.commits
        if commitment.is_over():
            commitment.end(is_over=True)
        elif commits.is_closed:
            commitment.end(is_over=False)
        else:
            commits.hold(commitment, self._broker.clock.monotonic_ms() + timeout_ms)

    # -- what is not acknowledged, counted by topic and by the error that the producer gets ----------------------------

    def _count_refusals(self, topic: str, write: Write) -> None:
        for batch, result in zip(write.batches, write.results, strict=True):
            if result.error is not None:
                self.count_refusal(topic, result.error, len(batch))

    def count_refusal(self, topic: str | None, error: BrokerError, size_bytes: int) -> None:
        """So many bytes for a partition of this topic were not appended."""
        rejected_bytes = size_bytes if isinstance(error, MessageTooLarge | RecordListTooLarge) else 0
        self._broker.topic_metrics.produce_failed(self._known(topic), rejected_bytes)
        self._broker.request_metrics.failed(PRODUCE, error.code)

    def count_unacknowledged(self, topic: str, error: BrokerError, count: int) -> None:
        """What was appended is not known to be committed."""
        self._broker.topic_metrics.of(self._known(topic)).failed_produces.value += count
        for _ in range(count):
            self._broker.request_metrics.failed(PRODUCE, error.code)

    def _known(self, topic: str | None) -> str:
        """The names of topics that do not exist are the client's invention."""
        return OTHER if topic is None or self._broker.image.topic(topic) is None else topic


def _waits_for_commit(partition: Partition, acks: int) -> bool:
    return acks == ACKS_ALL or (acks == 1 and partition.in_sync is None and partition.needs_flush)


class Commitment:
    """Writes that were appended together, in line for their commit."""

    __slots__ = ("_error", "_wants_all", "_writer", "next_offset", "partition", "writes")

    def __init__(self, writer: Writer, partition: Partition, writes: list[Write], wants_all: bool) -> None:
        """`wants_all`: acks=all; with acks=1 only the leader's own disk is waited for."""
        self._writer = writer
        self.partition = partition
        self.writes = writes
        self._wants_all = wants_all
        self._error: BrokerError | None = None
        self.next_offset = max([write.next_offset for write in writes])  # committed when the high watermark is here
        for write in writes:
            write.batches = []  # their memory is wanted for what comes next

    def is_over(self) -> bool:
        """Whether they are committed, or cannot be any more, which their results then say."""
        partition = self.partition
        try:
            # In whichever epoch: a leader that goes on in a new one (a follower died) has what it wrote in the old one,
            # and one that lost its office in between was asked when that happened.
            partition.check_leader()
        except BrokerError as error:
            self._error = error
            return True
        if partition.end.high_watermark < self.next_offset:
            return False
        if self._wants_all and partition.in_sync_count < partition.min_in_sync_count:
            self._error = NotEnoughReplicasAfterAppend()
        return True

    def end(self, *, is_over: bool) -> None:
        """It is over, or its time is."""
        error = self._error if is_over else RequestTimedOut()
        if error is not None:
            count = sum([result.error is None for write in self.writes for result in write.results])
            self._writer.count_unacknowledged(self.partition.name.topic, error, count)
            for write in self.writes:
                write.refuse(error)
        for write in self.writes:
            write.end()
