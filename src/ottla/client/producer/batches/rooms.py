"""Room for a record that found none: whose turn it is, a batch that is stopped, another that is opened. The readable
twin.

The accumulator's lock is held around `make`, which never waits: it finds room, opens a batch, or gives a place in the
line for memory; and around `free`, which gives memory back. The native twin (_rooms.pxi) does the same without a call
into Python where nothing is unusual: nobody waits in the line or comes back from it, and batches are not compressed.
All else it leaves to this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.client.producer.batches import append_choice
from ottla.client.producer.batches.buffer_pool import Place
from ottla.client.producer.partitioner import next_partition
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.producer.batches.accumulator import RecordAccumulator
    from ottla.client.producer.batches.partition_queue import PartitionQueue
    from ottla.client.producer.batches.producer_batch import ProducerBatch
    from ottla.client.producer.batches.topic_state import TopicState


class Rooms:
    """Opens the batches of one accumulator."""

    def __init__(self, accumulator: RecordAccumulator) -> None:
        self._all = accumulator

    def make(
        self,
        state: TopicState,
        partition: int | None,
        needed_bytes: int,
        now_ms: float,
        place: Place | None,
        stopped: list[ProducerBatch],
        granted: list[Place],
    ) -> tuple[Place | None, bool]:
        """A place to wait at, if there is no memory, and whether there was room already. `stopped` gets the batches
        that take no more records, `granted` the places that were granted when `place` was given up."""
        if partition is None:
            partition = self.turn(state, needed_bytes, stopped)
        batch = state.open_batch(partition)
        has_room = batch is not None and (batch.fits(needed_bytes) or self.grow(batch, needed_bytes))
        if place is not None and (has_room or place.size_bytes < needed_bytes):
            granted += self._all.pool.leave(place)
            place = None
        if has_room:
            return None, True
        return self._open_another(state, partition, needed_bytes, now_ms, place, stopped), False

    def turn(self, state: TopicState, needed_bytes: int, stopped: list[ProducerBatch]) -> int:
        """Whose turn it is among the partitions, for a record without a key that found no room."""
        is_over = state.sticky_bytes > 0 and state.sticky_bytes + needed_bytes >= self._all.sizes.batch_bytes
        batch = None if state.sticky < 0 else state.open_batch(state.sticky)
        if state.sticky < 0 or (is_over and (batch is None or not batch.fits(needed_bytes))):
            _stop(state, state.sticky, stopped)
            waiting = {
                queue.name.partition: len(queue.batches)
                for queue in self._all.busy
                if self._all.is_adaptive and queue.state is state
            }
            available = self._all.available_of(state.topic)
            state.stick_to(next_partition(waiting, available, state.partition_count, self._all.chance))
        return state.sticky

    def grow(self, batch: ProducerBatch, needed_bytes: int) -> bool:
        """Let a batch with a small buffer go on in a larger one, as far as memory is free."""
        if not batch.fits_grown(needed_bytes):
            return False
        old_bytes = batch.accounted_bytes
        sizes = self._all.sizes
        limit_bytes = sizes.limit_bytes(batch.delivery.topic, needed_bytes)
        size = sizes.grown_bytes(old_bytes, limit_bytes, needed_bytes, is_compressed=batch.is_compressed)
        buffer = self._all.pool.try_allocate(size) if size else None
        if buffer is None:
            return False
        old = batch.grow(buffer, size)
        self._all.pool.give_back(old_bytes, old)  # nobody waits, or nothing would have been granted
        return True

    def _open_another(
        self,
        state: TopicState,
        partition: int,
        needed_bytes: int,
        now_ms: float,
        place: Place | None,
        stopped: list[ProducerBatch],
    ) -> Place | None:
        """Stop the batch that has no room and open another, if there is memory for it."""
        queue = self.queue_of(state, partition)
        self._all.admit(queue.name)
        _stop(state, partition, stopped)
        limit_bytes = self._all.sizes.limit_bytes(state.topic, needed_bytes)
        if place is None:
            size = self._all.sizes.first_bytes(queue.last_bytes, limit_bytes, needed_bytes)
            found = self._all.pool.allocate(size)
            if isinstance(found, Place):
                return found
        else:
            found = self._all.pool.take(place)
        self._open(queue, found, limit_bytes, now_ms)
        return None

    def _open(self, queue: PartitionQueue, buffer: bytearray, limit_bytes: int, now_ms: float) -> None:
        topic, partition = queue.name
        batch = append_choice.ProducerBatch(
            queue,
            topic,
            partition,
            buffer,
            len(buffer),
            limit_bytes=limit_bytes,
            created_ms=now_ms,
            compression=self._all.compression,
            level=self._all.level,
            ratio=self._all.ratios.estimate(topic, self._all.compression),
        )
        queue.batches.append(batch)
        self._all.busy[queue] = None
        self._all.incomplete[batch] = None
        queue.state.set_open(partition, batch)

    def free(self, batches: Sequence[ProducerBatch]) -> list[Place]:
        """Nothing refers to these batches any more: memory back; the places in line that are granted by it."""
        released = [batch.release() for batch in batches]
        for batch in batches:
            self._all.incomplete.pop(batch, None)
        return self._all.pool.give_back_all(released)

    def queue_of(self, state: TopicState, partition: int) -> PartitionQueue:
        """The queue of a partition, made on first use."""
        name = TopicPartition(state.topic, partition)
        queue = self._all.queues.get(name)
        if queue is None:
            queue = self._all.queues[name] = append_choice.PartitionQueue(name, state)
        return queue


def _stop(state: TopicState, partition: int, stopped: list[ProducerBatch]) -> None:
    batch = state.open_batch(partition)
    if batch is not None:
        batch.stop()
        batch.queue.last_bytes = batch.uncompressed_bytes
        state.set_open(partition, None)
        stopped.append(batch)
