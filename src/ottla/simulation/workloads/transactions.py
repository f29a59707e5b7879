"""Transactions over several partitions; one in three is aborted.

1. A transaction is `begin` (its number is `txn` in what follows), `send`s with `txn`, and `end` (wants: commit or
   abort; ok: it was done; info: nobody knows).
2. Two of them may share a transactional.id: each fences the other, and is made anew.
3. A producer that met an error is closed and made anew, as its documentation says.
4. Who has a transactional.id of its own takes another one in its next life: the transaction in which it was killed is
   ended by nobody but its coordinator.
5. Some are slow: between two sends, and before the end, so long that the coordinator or another owner of the id may
   end the transaction first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ottla.client.producer.async_producer import AsyncProducer
from ottla.errors import OttlaError
from ottla.simulation.workloads.base import (
    CALL_S,
    ERRORS,
    Workload,
    close_quietly,
    describe,
    end_send,
    hear,
    name_of,
)
from ottla.values import TopicPartition

ALONE: Final = "alone"  # the id of who shares it with nobody
ABORTED: Final = 1 / 3
SLOW: Final = 0.15


class Transactional(Workload):
    """What transfers and copies have."""

    def __init__(self, *arguments: Any, transactional_id: str) -> None:
        super().__init__(*arguments)
        self.transactional_id = transactional_id

    async def ready_producer(self, transactional_id: str | None = None) -> AsyncProducer:
        """With the id of this workload, or with another one."""
        producer = self.producer(
            delivery_timeout_ms=int(self.tempo.request_s * 4_000),
            transaction_timeout_ms=int(self.tempo.transaction_s * 1_000),
            transactional_id=transactional_id or self.transactional_id,
        )
        try:
            await producer.init_transactions(self.paced_s(CALL_S))
        except BaseException:
            await close_quietly(producer)
            raise
        return producer

    async def begin(self, producer: AsyncProducer) -> int:
        await producer.begin_transaction()
        return self.history.note(self.name, "begin")

    async def send(
        self, producer: AsyncProducer, txn: int, partition: TopicPartition, *, client: str = "", **facts: Any
    ) -> None:
        """Returns when the producer has taken the record. Who has several producers names them by `client`."""
        value, name = self.numbers.next(), name_of(partition)
        sending = self.history.invoke(client or self.name, "send", partition=name, value=value, txn=txn, **facts)
        try:
            future = await producer.send(partition.topic, b"%d" % value, partition=partition.partition)
        except OttlaError as error:
            end_send(sending, error)
            raise
        asyncio.get_running_loop().create_task(hear(future, sending))

    async def end(self, producer: AsyncProducer, txn: int, wants: str) -> None:
        ending = self.history.invoke(self.name, "end", txn=txn, wants=wants)
        try:
            await (producer.commit_transaction if wants == "commit" else producer.abort_transaction)(
                self.paced_s(CALL_S)
            )
        except ERRORS as error:
            ending.info(describe(error))
            raise
        ending.ok()


class Transfers(Transactional):
    """See the module."""

    def __init__(
        self, *arguments: Any, transactional_id: str, partitions: Sequence[TopicPartition], pause_s: float
    ) -> None:
        super().__init__(*arguments, transactional_id=transactional_id)
        self._own_id = transactional_id if transactional_id == ALONE else None
        self._lives = 0
        self._partitions = partitions
        self._pause_s = pause_s

    async def run(self) -> None:
        self._lives += 1
        if self._own_id is not None:
            self.transactional_id = f"{self._own_id}-{self._lives}"
        while not self.is_stopping:
            try:
                producer = await self.ready_producer()
            except ERRORS:
                await self.pause(self.paced_s(0.5))
                continue
            try:
                while not self.is_stopping:
                    await self._transfer(producer)
            except ERRORS:
                await self.pause(self.paced_s(0.5))
            finally:
                await close_quietly(producer)

    async def _transfer(self, producer: AsyncProducer) -> None:
        await self.pause(self._pause_s)
        txn = await self.begin(producer)
        with self.amid():
            for _ in range(self.random.randint(1, 4)):
                await self.send(producer, txn, self.random.choice(self._partitions))
                if self.random.random() < SLOW:
                    await self.pause(self.tempo.transaction_s / 2)
            await self.end(producer, txn, "abort" if self.random.random() < ABORTED else "commit")
