"""Transactions over several partitions; one in three is aborted.

1. A transaction is `begin` (its number is `txn` in what follows), `send`s with `txn`, and `end` (wants: commit or
   abort; ok: it was done; info: nobody knows).
2. Two of them may share a transactional.id: each fences the other, and is made anew.
3. A producer that met an error is closed and made anew, as its documentation says.
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
    PRODUCER,
    Workload,
    close_quietly,
    describe,
    end_send,
    hear,
    name_of,
)
from ottla.values import TopicPartition

TIMEOUT_MS: Final = 10_000
ABORTED: Final = 1 / 3
SLOW: Final = 0.1


class Transactional(Workload):
    """What transfers and copies have."""

    def __init__(self, *arguments: Any, transactional_id: str) -> None:
        super().__init__(*arguments)
        self._transactional_id = transactional_id

    async def ready_producer(self) -> AsyncProducer:
        settings = {**PRODUCER, "delivery_timeout_ms": 20_000, "transaction_timeout_ms": TIMEOUT_MS}
        producer = AsyncProducer(**self.doors(), **settings, transactional_id=self._transactional_id)
        try:
            await producer.init_transactions(CALL_S)
        except BaseException:
            await close_quietly(producer)
            raise
        return producer

    async def begin(self, producer: AsyncProducer) -> int:
        await producer.begin_transaction()
        return self.history.note(self.name, "begin")

    async def send(self, producer: AsyncProducer, txn: int, partition: TopicPartition, **facts: Any) -> None:
        """Returns when the producer has taken the record."""
        value = self.numbers.next()
        sending = self.history.invoke(self.name, "send", partition=name_of(partition), value=value, txn=txn, **facts)
        try:
            future = await producer.send(partition.topic, b"%d" % value, partition=partition.partition)
        except OttlaError as error:
            end_send(sending, error)
            raise
        asyncio.get_running_loop().create_task(hear(future, sending))

    async def end(self, producer: AsyncProducer, txn: int, wants: str) -> None:
        ending = self.history.invoke(self.name, "end", txn=txn, wants=wants)
        try:
            await (producer.commit_transaction if wants == "commit" else producer.abort_transaction)(CALL_S)
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
        self._partitions = partitions
        self._pause_s = pause_s

    async def run(self) -> None:
        while not self.is_stopping:
            try:
                producer = await self.ready_producer()
            except ERRORS:
                await self.pause(0.5)
                continue
            try:
                while not self.is_stopping:
                    await self._transfer(producer)
            except ERRORS:
                await self.pause(0.5)
            finally:
                await close_quietly(producer)

    async def _transfer(self, producer: AsyncProducer) -> None:
        await self.pause(self._pause_s)
        txn = await self.begin(producer)
        for _ in range(self.random.randint(1, 4)):
            await self.send(producer, txn, self.random.choice(self._partitions))
            if self.random.random() < SLOW:
                await self.pause(TIMEOUT_MS / 2_000)
        await self.end(producer, txn, "abort" if self.random.random() < ABORTED else "commit")
