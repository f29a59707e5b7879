"""The topic _schemas on the broker that leads it: replayed up to what is committed, appended to.

1. What is known is always a replay from the start of the log. It belongs to one topic and one leader epoch; when this
   broker leads in another epoch, or the topic was made anew, it begins again, so nothing that was not committed is
   ever known.
2. Before anything is answered, all that is committed is replayed: also what others wrote into the topic, a restored
   backup for example. A leader that has just been elected knows the high watermark of its last fetch only; the leader
   before it may have answered what lies behind. So it waits until all that it found is committed.
3. An append is answered when it is committed. When it is not known whether it was, that is the answer.
4. Reading pauses (pacing.py): ten thousand schemas keep nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.registry.errors import RegistryError, store_failed, store_timed_out
from ottla.broker.registry.records import TOPIC, Record
from ottla.broker.registry.schemas import Schemas
from ottla.broker.registry.state import RegistryState
from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.broker.requests.pacing import Pace
from ottla.errors import BrokerError, MessageTooLarge, NotLeaderOrFollower, RecordListTooLarge
from ottla.light_dataclasses import dataclass
from ottla.records import BatchBuilder, RecordBatch, RecordStream
from ottla.storage.log.origin import AppendOrigin
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PARTITION: Final = TopicPartition(TOPIC, 0)
READ_BYTES: Final = 256 * 1024
BATCH_LIMIT_BYTES: Final = 1 << 30  # the topic's max.message.bytes decides, not the builder


@dataclass
class _Pending:
    """An append that waits until it is committed (replication/commits.py)."""

    partition: Partition
    next_offset: int
    error: BrokerError | None = None

    def is_over(self) -> bool:
        try:
            self.partition.check_leader()
        except BrokerError as error:
            self.error = error
            return True
        return self.partition.high_watermark >= self.next_offset


class SchemaLog:
    """See the module. Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.state = RegistryState()
        self.schemas = Schemas(lambda: self.state)
        self._belongs_to: tuple[bytes, int] | None = None
        self._next_offset = 0
        self._found_offset = 0  # the end of the log when this broker began to lead
        self._reading = asyncio.Lock()

    def led_partition(self) -> Partition:
        """The partition, where this broker leads it; raises NotLeaderOrFollower where it does not."""
        partition = self._broker.replicas.get(PARTITION)
        if partition is None:
            raise NotLeaderOrFollower(f"{PARTITION} is not on this broker")
        partition.check_leader()
        return partition

    async def catch_up(self, pace: Pace) -> None:
        """Replay what is committed and not yet known."""
        async with self._reading:
            partition = self.led_partition()
            self._begin_anew_if_other(partition)
            if partition.high_watermark < self._found_offset:
                pace.release()
                await self._committed(_Pending(partition, self._found_offset))
            while self._next_offset < partition.high_watermark:
                await self._read_on(partition, pace)
                if partition is not self.led_partition():
                    raise NotLeaderOrFollower(f"{PARTITION} was made anew")

    def _begin_anew_if_other(self, partition: Partition) -> None:
        belongs_to = partition.topic_id, partition.leader_epoch
        start = partition.log.log_start_offset
        if belongs_to != self._belongs_to or self._next_offset < start:
            self.state = RegistryState()
            self.schemas.forget()
            self._belongs_to, self._next_offset = belongs_to, start
            self._found_offset = partition.log.log_end_offset

    async def _read_on(self, partition: Partition, pace: Pace) -> None:
        found = partition.read(self._next_offset, READ_BYTES, at_least_one_batch=True)
        before = self._next_offset
        for batch in RecordStream(found.slice.read()):
            assert isinstance(batch, RecordBatch), "a topic of ours never held old message sets"
            if batch.next_offset <= self._next_offset:
                continue
            if batch.next_offset > partition.high_watermark:
                break
            batch.check()
            self._replay(batch)
            self._next_offset = batch.next_offset
            await pace.step()
        if self._next_offset == before:
            raise store_failed(f"{PARTITION} cannot be read at offset {before}")

    def _replay(self, batch: RecordBatch) -> None:
        if batch.is_control:
            return
        for record in batch:
            if record.offset >= self._next_offset:
                self.state.replay(record.key, record.value)

    async def append(self, records: Sequence[Record]) -> None:
        """Append as one batch; returns when it is committed. RegistryError when it is not, or nobody knows."""
        broker, now_ms = self._broker, self._broker.clock.now_ms()
        builder = BatchBuilder(size_limit_bytes=BATCH_LIMIT_BYTES)
        for record in records:
            builder.append(now_ms, record.key, record.value)
        partition = self.led_partition()
        try:
            result = partition.append(
                bytearray(builder.close()), acks=ACKS_ALL, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
            )
        except (MessageTooLarge, RecordListTooLarge) as error:
            raise RegistryError(42209, f"The schema is too large: {error}") from None
        broker.progress.appended(partition)
        await self._committed(_Pending(partition, result.next_offset))

    async def _committed(self, pending: _Pending) -> None:
        if pending.is_over() and pending.error is None:
            return
        broker = self._broker
        deadline_ms = broker.clock.monotonic_ms() + broker.settings.request_timeout_ms
        is_over = pending.error is not None or await broker.progress.commits.wait(pending, deadline_ms)
        if pending.error is not None:
            raise store_failed(f"the leader changed before what was written was committed: {pending.error}")
        if not is_over:
            raise store_timed_out("what was written was not committed in time; a replica may be down")
