"""Batches on their way out and back: which are ready, which leave now, under which numbers, and those that arrived.

Every batch passes through here twice, so there is a native twin (_draining.pxi); this is the readable one. The native
one decides by itself only about batches that were never sent; about all others it asks `may_leave` here.

1. `ready` looks at every queue with batches: by its leader if its first batch may go now, else when it may.
2. `drain` takes the first batch of each queue that may go, from a rotating start, as much as one request may hold. A
   batch that leaves takes no more records, gets its numbers, and is in `in_flight` until its request has ended.
3. `accept` ends the batches of a request that was answered with nothing but good news, each of them once; it does what
   Outcomes does for one batch. Whoever waits for a record is called from there, and may do anything.

The sender calls them on its loop; it holds the accumulator's lock for `drain`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.client.producer.batches.partition_queue import PartitionQueue
    from ottla.client.producer.batches.producer_batch import ProducerBatch
    from ottla.client.producer.batches.stamps import PartitionSequences, Stamp
    from ottla.client.producer.transactions.states import ProducerIdentity
    from ottla.values import Node, TopicPartition


class Numbering(Protocol):
    """The part of the transaction manager that numbers batches."""

    def sendable(self) -> tuple[ProducerIdentity | None, set[TopicPartition] | None]:
        """Under which identity batches may go, None for not at all; and of which partitions, None for all."""

    def numbers_of(self, partition: TopicPartition) -> PartitionSequences:
        """The numbers of a partition, made on first use."""

    def may_drain(self, partition: TopicPartition, stamp: Stamp | None) -> bool: ...
    def probe(self, partition: TopicPartition) -> Stamp | None: ...
    def end_probing(self, partition: TopicPartition) -> None: ...
    def stamping(self) -> None:
        """Batches are about to get numbers."""


class Drainer:
    """Takes the batches of one producer out of their queues."""

    def __init__(
        self,
        busy: dict[PartitionQueue, None],
        in_flight: dict[ProducerBatch, None],
        numbering: Numbering | None,
        *,
        linger_ms: float,
        request_limit_bytes: int,
        mutes: bool,
    ) -> None:
        self._busy = busy
        self._in_flight = in_flight
        self._numbering = numbering
        self._linger_ms = linger_ms
        self._request_limit_bytes = request_limit_bytes
        self._mutes = mutes  # one request in flight: a partition rests until its batch is answered

    # --- looking ---

    def ready(
        self, version: int, now_ms: float, is_hurried: bool, find_leader: Callable[[PartitionQueue], Node | None]
    ) -> tuple[dict[Node, list[PartitionQueue]], float, list[PartitionQueue], int]:
        """The queues that may send, by their leaders; when to look at the others; queues whose batch nobody wrote into
        although its time is over; and how many could send if they had a leader. `version` is that of the metadata."""
        ready: dict[Node, list[PartitionQueue]] = {}
        empty: list[PartitionQueue] = []
        wake_ms, leaderless_count = math.inf, 0
        for queue in list(self._busy):
            leader = queue.leader if queue.leader_version == version else find_leader(queue)
            if queue.is_muted or not queue.batches:
                continue
            ready_ms = self._ready_ms(queue, now_ms, is_hurried)
            if ready_ms > now_ms:
                wake_ms = min(wake_ms, ready_ms)
            elif queue.batches[0].record_count == 0:
                empty.append(queue)
            elif leader is None:
                leaderless_count += 1
            else:
                ready.setdefault(leader, []).append(queue)
        return ready, wake_ms, empty, leaderless_count

    def next_ready_ms(self, queues: list[PartitionQueue], now_ms: float, is_hurried: bool) -> float:
        """When what was left behind may go, if only time holds it back."""
        left = [self._ready_ms(queue, now_ms, is_hurried) for queue in queues if queue.batches and not queue.is_muted]
        return min((ready_ms for ready_ms in left if ready_ms > now_ms), default=math.inf)

    def _ready_ms(self, queue: PartitionQueue, now_ms: float, is_hurried: bool) -> float:
        return ready_ms_of(queue, now_ms, is_hurried, self._linger_ms)

    def oldest_ms(self) -> float:
        """When the oldest batch with records was made, of those that wait or are on their way; infinity for none."""
        waiting = [queue.batches[0] for queue in list(self._busy) if queue.batches]  # callers open batches beside us
        made = [batch.created_ms for batch in waiting if batch.record_count]
        made += [batch.created_ms for batch in self._in_flight if not batch.delivery.is_done]
        return min(made, default=math.inf)

    # --- out ---

    def drain(
        self, queues: list[PartitionQueue], start: int, now_ms: float, is_hurried: bool
    ) -> tuple[list[ProducerBatch], int]:
        """The batches of one request, and where to begin next time."""
        batches: list[ProducerBatch] = []
        size_bytes, count = 0, len(queues)
        for step in range(start, start + count):
            queue = queues[step % count]
            if not may_leave(queue, now_ms, is_hurried, self._linger_ms, self._numbering):
                continue
            first_bytes = queue.batches[0].size_bytes
            if batches and size_bytes + first_bytes > self._request_limit_bytes:
                return batches, step
            size_bytes += first_bytes
            batches.append(self._take(queue))
        return batches, start + 1

    def _take(self, queue: PartitionQueue) -> ProducerBatch:
        batch = take_first(queue, self._busy)
        if self._numbering is not None and batch.stamp is None:
            identity, _ = self._numbering.sendable()
            assert identity is not None, "asked before"
            self._numbering.stamping()
            batch.stamp = numbers_of(queue, self._numbering).stamp(identity, batch.record_count)
        batch.leader_epoch = queue.leader_epoch
        if self._mutes:
            queue.is_muted = True
        self._in_flight[batch] = None
        queue.in_flight_count += 1
        return batch

    # --- and back ---

    def accept(
        self, batches: Sequence[ProducerBatch], places: Sequence[tuple[int, int]], done: list[ProducerBatch]
    ) -> None:
        """The broker has all of them, at these offsets and times; `done` gets those whose memory may go back."""
        for batch, (base_offset, append_time_ms) in zip(batches, places, strict=True):
            if not self.end(batch):
                continue
            if not batch.delivery.is_done:
                self._acknowledge(batch, base_offset, append_time_ms)
            done.append(batch)

    def _acknowledge(self, batch: ProducerBatch, base_offset: int, append_time_ms: int) -> None:
        queue: PartitionQueue = batch.queue
        if self._numbering is not None and batch.stamp is not None:
            numbers_of(queue, self._numbering).acknowledged(batch.stamp, base_offset)
            queue.proven = batch.stamp.identity
        queue.last_error = None
        batch.delivery.succeed(base_offset, append_time_ms)

    def end(self, batch: ProducerBatch) -> bool:
        """The request that carried this batch is over, one way or the other; False when that was told before."""
        if batch not in self._in_flight:
            return False
        del self._in_flight[batch]
        batch.queue.in_flight_count -= 1
        if self._mutes:
            batch.queue.is_muted = False
        return True


def ready_ms_of(queue: PartitionQueue, now_ms: float, is_hurried: bool, linger_ms: float) -> float:
    """When the first batch of a queue may go: now or earlier when it may."""
    batch = queue.batches[0]
    if batch.attempts > 0 and batch.leader_epoch >= queue.leader_epoch:
        return batch.last_attempt_ms + batch.backoff_ms
    if is_hurried or batch.attempts > 0 or len(queue.batches) > 1 or batch.is_full:
        return now_ms
    return batch.created_ms + linger_ms


def may_leave(
    queue: PartitionQueue, now_ms: float, is_hurried: bool, linger_ms: float, numbering: Numbering | None
) -> bool:
    """Whether the first batch of a queue may go now; a probe is brought to the front first."""
    if not queue.batches or queue.is_muted or queue.batches[0].record_count == 0:
        return False
    # The queue was ready when the turn began; what follows its first batch must be ready by itself.
    if ready_ms_of(queue, now_ms, is_hurried, linger_ms) > now_ms:
        return False
    if numbering is None:
        return True
    stamp = queue.batches[0].stamp
    if stamp is None and queue.in_flight_count and queue.proven != numbering.sendable()[0]:
        # A broker that knows nothing of a producer takes any first number. If our first batch is refused for a
        # while and the second is not, the order is broken for good: so the first one goes alone.
        return False
    if stamp is not None and (probe := numbering.probe(queue.name)) is not None:
        stamp = _bring_forward(queue, probe, numbering)
    return numbering.may_drain(queue.name, stamp)


def _bring_forward(queue: PartitionQueue, probe: Stamp, numbering: Numbering) -> Stamp | None:
    """Let a probe go first at the leader that refused the first batch; another leader is asked about that one."""
    first = queue.batches[0]
    batch = next((each for each in queue.batches if each.stamp is probe), first)
    if first.leader_epoch != queue.leader_epoch:
        numbering.end_probing(queue.name)
    elif batch is not first:
        queue.batches.remove(batch)
        queue.batches.appendleft(batch)
    found: Stamp | None = queue.batches[0].stamp
    return found


def take_first(queue: PartitionQueue, busy: dict[PartitionQueue, None]) -> ProducerBatch:
    """Take the head of a queue away; an open one takes no more records. The caller holds the lock."""
    batch = queue.batches.popleft()
    if batch.is_open:
        batch.stop()
        queue.last_bytes = batch.uncompressed_bytes
    if queue.state.open_batch(queue.name.partition) is batch:
        queue.state.set_open(queue.name.partition, None)
    if not queue.batches:
        busy.pop(queue, None)
    return batch


def numbers_of(queue: PartitionQueue, numbering: Numbering) -> PartitionSequences:
    """The numbers of a queue's partition, without a search while they are the same."""
    if queue.numbers is None or queue.numbers.is_dropped:
        queue.numbers = numbering.numbers_of(queue.name)
    return queue.numbers
