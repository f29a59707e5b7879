"""Reads, processes and writes exactly once: the copies and the offsets of what was read are in one transaction.

1. A copy is a `send` with `source`: the partition and offset that it was made of, and the group that reads.
2. After any error everything is made anew, and reading goes on from what the group has committed.
3. Some are slow between the offsets and the end of the transaction: others may have their partitions by then.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.client.producer.async_producer import AsyncProducer
from ottla.simulation.workloads.base import CALL_S, ERRORS, close_quietly, name_of, poll
from ottla.simulation.workloads.groups import member_settings
from ottla.simulation.workloads.transactions import ABORTED, SLOW, Transactional
from ottla.values import TopicPartition

GROUP: Final = "copy"
RECORDS: Final = 10


class Copier(Transactional):
    """See the module."""

    def __init__(self, *arguments: Any, transactional_id: str, source: str, target: str, kind: str) -> None:
        super().__init__(*arguments, transactional_id=transactional_id)
        self._source = source
        self._target = target
        self._kind = kind

    async def run(self) -> None:
        while not self.is_stopping:
            consumer = self.consumer(
                self._source,
                group_id=GROUP,
                enable_auto_commit=False,
                max_poll_records=RECORDS,
                **member_settings(self._kind, self.tempo),
            )
            try:
                await self._copy_until_an_error(consumer)
            except ERRORS:
                await self.pause(self.paced_s(0.5))
            finally:
                await close_quietly(consumer)

    async def _copy_until_an_error(self, consumer: AsyncConsumer) -> None:
        producer = await self.ready_producer()
        try:
            while not self.is_stopping:
                self.history.note(self.name, "assign")
                records = await poll(consumer, self)
                if records:
                    with self.amid():
                        await self._copy(consumer, producer, records)
        finally:
            await close_quietly(producer)

    async def _copy(self, consumer: AsyncConsumer, producer: AsyncProducer, records: Any) -> None:
        group = consumer.group_metadata()
        txn = await self.begin(producer)
        offsets: dict[TopicPartition, int] = {}
        for each in records:
            source = TopicPartition(each.topic, each.partition)
            target = TopicPartition(self._target, each.partition)
            await self.send(producer, txn, target, source=[name_of(source), each.offset], group=GROUP)
            offsets[source] = each.offset + 1
        await producer.send_offsets_to_transaction(offsets, group, self.paced_s(CALL_S))
        if self.random.random() < SLOW:
            await self.pause(self.tempo.member_s)
        if self.random.random() < ABORTED / 3:
            await self.end(producer, txn, "abort")
            raise TimeoutError("aborted by choice: what was read must be read again")
        await self.end(producer, txn, "commit")
