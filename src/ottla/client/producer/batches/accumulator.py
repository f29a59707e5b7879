"""A queue of batches per partition: records come in from callers, batches go out to the sender.

1. The last batch of a queue may be open; all others are full. Records enter only there (topic_state.py), and a queue
   leaves from its head, so the order of a partition is the order of its sends.
2. `make_room` is what a caller asks when the open batch has no room: it closes that batch and opens another, or gives
   the caller a place in the line for memory. It never waits.
3. A batch is ready when it is full, has lingered, or when somebody cannot wait: memory is short, a flush is under way,
   a transaction completes, the producer closes. One that may linger longer stays, also when its neighbours leave.
4. A batch that failed goes back to the head, in the order of its sequence numbers. While it backs off its partition
   waits with it; unless the leader has changed, then it may go at once (KIP-951).
5. `incomplete` holds every batch from its first record until its delivery is known: flush, close and the end of a
   transaction wait for that.
6. One lock, held shortly, around queues and memory. Nobody is called while it is held. Records themselves are written
   without it where the interpreter's own lock is enough (see _append.pyx).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from ottla.client.producer.batches.append_choice import PartitionQueue, ProducerBatch, Rooms, TopicState
from ottla.client.producer.batches.batch_sizes import BatchSizes
from ottla.client.producer.batches.buffer_pool import BufferPool, Place
from ottla.client.producer.batches.draining import take_first
from ottla.client.producer.batches.stamps import is_later
from ottla.client.producer.partitioner import Chance
from ottla.errors import OttlaError
from ottla.records import Compression, CompressionRatios, RecordBatch
from ottla.values import TopicPartition

SERVE_SHARE: Final = 64
"""Callers who wait for memory are woken when this share of it is free; see buffer_pool.py."""


class RecordAccumulator:
    """All queues of one producer and their memory."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        memory_bytes: int,
        record_limit_bytes: int,
        chance: Chance,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        ignores_keys: bool = False,
        adaptive: bool = True,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.pool = BufferPool(memory_bytes, batch_bytes, serve_from_bytes=memory_bytes // SERVE_SHARE)
        self.ratios = CompressionRatios()
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.busy: dict[PartitionQueue, None] = {}
        self.incomplete: dict[ProducerBatch, None] = {}
        self.available: dict[str, tuple[int, ...]] = {}  # by topic: the partitions with a leader, in order
        self.avoided: frozenset[TopicPartition] = frozenset()  # whose leaders have taken nothing for too long
        self.flushing_count = 0
        self.is_closed = False
        self.on_new_batch: Callable[[bool], None] = _nobody
        self.admit: Callable[[TopicPartition], None] = _everybody
        self.sizes = BatchSizes(batch_bytes)
        self.chance = chance
        self.is_adaptive = adaptive
        self.compression = compression
        self.level = level
        self._record_limit_bytes = record_limit_bytes
        self._rooms = Rooms(self)
        self._ignores_keys = ignores_keys
        self._clock = {} if now_ms is None else {"now_ms": now_ms}

    # --- for callers, any thread ---

    def new_state(self, topic: str, partition_count: int) -> TopicState:
        """The hot state of a topic that was not written to before."""
        state = TopicState(
            topic,
            sticky_limit_bytes=self.sizes.batch_bytes,
            record_limit_bytes=self._record_limit_bytes,
            ignores_keys=self._ignores_keys,
            lock=self.lock,
            **self._clock,
        )
        state.set_partition_count(partition_count)
        return state

    def make_room(
        self, state: TopicState, partition: int | None, needed_bytes: int, now_ms: float, place: Place | None = None
    ) -> Place | None:
        """Let the next try to put a record find room, or give a place to wait at; a granted `place` is used up."""
        granted: list[Place] = []
        stopped: list[ProducerBatch] = []
        with self.lock:
            found, has_room = self._rooms.make(state, partition, needed_bytes, now_ms, place, stopped, granted)
        if granted:
            _notify(granted)
        for full in stopped:
            # Compressing here, in the caller's thread, leaves the interpreter to the sender meanwhile.
            full.close()
        if not has_room or stopped:
            self.on_new_batch(bool(stopped))
        return found

    def available_of(self, topic: str) -> tuple[int, ...]:
        """The partitions for records without a key: with a leader, and one that takes batches if there is any."""
        available = self.available.get(topic, ())
        if not self.avoided:
            return available
        return tuple(each for each in available if TopicPartition(topic, each) not in self.avoided) or available

    def leave(self, place: Place) -> None:
        """Nobody waits at this place any more."""
        with self.lock:
            granted = self.pool.leave(place)
        _notify(granted)

    def press(self) -> None:
        """Somebody has waited a while: whatever is free goes to the line now."""
        with self.lock:
            granted = self.pool.serve()
        _notify(granted)

    # --- for the sender, on the loop ---

    def take_first(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the head of a queue away; an open one takes no more records. The caller holds the lock."""
        return take_first(queue, self.busy)

    def drop_empty(self, queue: PartitionQueue) -> None:
        """Take away a batch that nobody wrote into; a caller who was about to finds no room and asks again."""
        with self.lock:
            batch = queue.batches[0]
            batch.stop()
            if batch.record_count:
                return  # written between our look and now; it is closed and leaves as it is
            queue.batches.popleft()
            if queue.state.open_batch(queue.name.partition) is batch:
                queue.state.set_open(queue.name.partition, None)
            if not queue.batches:
                self.busy.pop(queue, None)
        self.finish(batch)

    def requeue(self, batch: ProducerBatch, now_ms: float) -> None:
        """Back to the head, before every batch with later numbers; batches without numbers were never sent."""
        batch.attempts += 1
        batch.last_attempt_ms = now_ms
        queue: PartitionQueue = batch.queue
        with self.lock:
            ahead = []
            while queue.batches and _precedes(queue.batches[0], batch):
                ahead.append(queue.batches.popleft())
            queue.batches.appendleft(batch)
            queue.batches.extendleft(reversed(ahead))
            self.busy[queue] = None

    def put_in_front(self, queue: PartitionQueue, batches: Iterable[ProducerBatch]) -> None:
        """The parts of a batch that was split, in their order, before everything that is not older."""
        parts = list(batches)
        with self.lock:
            ahead = []
            while queue.batches and parts and _precedes(queue.batches[0], parts[0]):
                ahead.append(queue.batches.popleft())
            queue.batches.extendleft(reversed(parts))
            queue.batches.extendleft(reversed(ahead))
            self.busy[queue] = None
            self.incomplete.update(dict.fromkeys(parts))

    def split(self, batch: ProducerBatch, limit_bytes: int, now_ms: float) -> list[ProducerBatch]:
        """The records of a batch that was too large, in batches of at most `limit_bytes`; its futures follow them."""
        if batch.is_compressed:
            # The broker proved the estimate wrong: expect the worst until batches say otherwise (KIP-126).
            self.ratios.reset(batch.delivery.topic, self.compression, max(1.0, batch.compression_ratio))
        parts: list[ProducerBatch] = []
        firsts: list[int] = []
        records = RecordBatch(bytes(batch.seal(-1, -1, -1, False)))
        for index, record in enumerate(records):
            content = record.timestamp_ms, record.key, record.value, record.headers
            if not parts or not parts[-1].append(*content):
                parts.append(self._part(batch, limit_bytes, now_ms, record_bytes=_size_of(record)))
                firsts.append(index)
                assert parts[-1].append(*content), "the first record of a batch always fits"
        for part in parts:
            part.close()
        batch.delivery.split([(first, part.delivery) for first, part in zip(firsts, parts, strict=True)])
        return parts

    def _part(self, batch: ProducerBatch, limit_bytes: int, now_ms: float, *, record_bytes: int) -> ProducerBatch:
        # Outside the pool, as in Java: waiting for memory here would be waiting for ourselves.
        part = ProducerBatch(
            batch.queue,
            batch.delivery.topic,
            batch.delivery.partition,
            bytearray(max(limit_bytes, record_bytes)),
            0,
            limit_bytes=limit_bytes,
            created_ms=batch.created_ms,
            compression=self.compression,
            level=self.level,
            ratio=1.0,
        )
        part.attempts = batch.attempts
        part.last_attempt_ms = now_ms
        return part

    def finish(self, *batches: ProducerBatch) -> None:
        """Their deliveries are known and nothing refers to them: memory back, those in line are told."""
        with self.lock:
            granted = self._rooms.free(batches)
        if granted:
            _notify(granted)

    def forget(self, batch: ProducerBatch) -> None:
        """Nobody waits for it any more, though a request still refers to its memory."""
        with self.lock:
            self.incomplete.pop(batch, None)

    def take_all(self, wanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Take all waiting batches that are `wanted` out of their queues: they will be failed."""
        removed = []
        with self.lock:
            for queue in list(self.busy):
                for batch in [each for each in queue.batches if wanted(each)]:
                    batch.stop()
                    if queue.state.open_batch(queue.name.partition) is batch:
                        queue.state.set_open(queue.name.partition, None)
                    queue.batches.remove(batch)
                    removed.append(batch)
                if not queue.batches:
                    self.busy.pop(queue, None)
        return removed

    def change_flushing(self, change: int) -> None:
        """A flush begins (1) or ends (-1); several may be under way."""
        with self.lock:
            self.flushing_count += change

    @property
    def is_hurried(self) -> bool:
        """Nobody should linger: memory is short, a flush is under way, or the producer closes."""
        return self.flushing_count > 0 or self.is_closed or self.pool.waiting_count > 0

    @property
    def incomplete_count(self) -> int:
        """Batches with records whose deliveries are not known now."""
        return len(self.deliveries())

    def why_not_delivered(self) -> OttlaError | None:
        """The last error of some partition whose batches are tried again."""
        return next((batch.queue.last_error for batch in self.deliveries() if batch.queue.last_error is not None), None)

    def deliveries(self) -> list[ProducerBatch]:
        """The batches with records whose deliveries are not known now."""
        with self.lock:
            return [batch for batch in self.incomplete if batch.record_count]


def _precedes(waiting: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether a batch that waits must leave before `batch`, which comes back."""
    if waiting.stamp is None or batch.stamp is None:
        return False
    if waiting.stamp.identity != batch.stamp.identity:
        return waiting.created_ms <= batch.created_ms
    return is_later(batch.stamp.base_sequence, waiting.stamp.base_sequence)


def _size_of(record: object) -> int:
    key, value = getattr(record, "key", None), getattr(record, "value", None)
    headers = sum(len(name.encode()) + len(content or b"") + 10 for name, content in getattr(record, "headers", ()))
    return 61 + 36 + len(key or b"") + len(value or b"") + headers + 10


def _notify(granted: list[Place]) -> None:
    for place in granted:
        if place.notify is not None:
            place.notify()


def _nobody(was_full: bool) -> None:
    return


def _everybody(partition: TopicPartition) -> None:
    return
