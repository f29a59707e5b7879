"""Members of a share group: they come, acquire records, accept, release or reject each of them, and go.

1. The mode is explicit, and after every poll the member waits for the answer to its acknowledgements: the history knows
   which of them were answered, offset by offset. One without an answer may have been kept or not.
2. A delivery stands in the history with its count and the consumer that got it (`life`). Brokers that lost their lead
   and do not know it yet may still hand records out; the fact `sure` says that there can be none: a cluster of one
   broker, or a consumer that began after everything was healed.
3. Locks are short, and some members work for longer than that: their records go to others meanwhile. The limit of
   deliveries is as high as it can be, so that nothing is archived unseen.
4. In the end a fresh member accepts all that is left, until nothing comes for QUIET_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.client.share.async_share_consumer import AsyncShareConsumer
from ottla.client.share.in_flight import AcknowledgeType, NotHeld
from ottla.client.share.records import ShareRecord
from ottla.errors import OttlaError
from ottla.simulation.workloads.base import ERRORS, Workload, close_quietly, describe, name_of
from ottla.values import TopicPartition

GROUP: Final = "share-group"
MEMBERS: Final = 2
LOCK_S: Final = 1.5
DELIVERIES: Final = 25
STAY_S: Final = 6.0  # a consumer, on average
COMMIT_S: Final = 10.0
SLOW: Final = 0.1
WORDS: Final = (AcknowledgeType.ACCEPT,) * 6 + (AcknowledgeType.RELEASE, AcknowledgeType.REJECT)
QUIET_S: Final = 2 * LOCK_S
DRAIN_S: Final = 120.0
KNOWN_S: Final = 1.0  # so long after its answer every broker knows a setting; nothing is broken then
BROKER_SETTINGS: Final[dict[str, object]] = {
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.max.delivery.count.limit": DELIVERIES,
    "group.share.min.session.timeout.ms": 100,
    "group.share.min.heartbeat.interval.ms": 100,
    "share.coordinator.state.topic.num.partitions": 2,
}
COPIED: Final = {
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}


def broker_settings(brokers: int, member_s: float, pace: float) -> dict[str, object]:
    patience = {
        "group.share.session.timeout.ms": max(1_500, int(member_s * 1_000)),
        "group.share.heartbeat.interval.ms": int(1_000 * pace),
        "group.share.record.lock.duration.ms": int(LOCK_S * 1_000 * pace),
    }
    return {**BROKER_SETTINGS, **patience, **{name: min(value, brokers) for name, value in COPIED.items()}}


async def configure(admin: AsyncAdmin) -> None:
    """The group's own settings: it begins at the start, and nothing is archived early."""
    changes = [
        AlterConfig("share.auto.offset.reset", "earliest"),
        AlterConfig("share.delivery.count.limit", str(DELIVERIES)),
    ]
    resource = ConfigResource(ConfigResourceType.GROUP, GROUP)
    while True:
        try:
            await admin.incremental_alter_configs({resource: changes})
            break
        except OttlaError:
            await asyncio.sleep(0.5)
    await asyncio.sleep(KNOWN_S)


class ShareMember(Workload):
    """See the module."""

    def __init__(self, *arguments: Any, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*arguments)
        self.partitions = partitions
        self._topics = sorted({each.topic for each in partitions})
        self._answers: dict[tuple[TopicPartition, int], OttlaError | None] = {}

    async def run(self) -> None:
        while not self.is_stopping:
            consumer, life = self._begin()
            end_s = self.cluster.loop.time() + self.paced_s(STAY_S) * 2 * self.random.random()
            while not self.is_stopping and self.cluster.loop.time() < end_s:
                records = await self.acquire(consumer, life)
                with self.amid():
                    if records and self.random.random() < SLOW:
                        await self.pause(self.paced_s(LOCK_S))
                    await self.acknowledge(consumer, records, WORDS)
            await close_quietly(consumer)
            await self.pause(self.paced_s(1.0))

    def _begin(self, *, is_last: bool = False) -> tuple[AsyncShareConsumer, int]:
        consumer = AsyncShareConsumer(
            *self._topics,
            **self.doors(),
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            request_timeout_ms=int(self.tempo.request_s * 1_000),
            max_poll_records=500 if is_last else self.random.choice((1, 5, 500)),
            share_acquire_mode=self.random.choice(("batch_optimized", "record_limit")),
        )
        consumer.set_acknowledgement_commit_callback(self._hear)
        names = [name_of(each) for each in self.partitions]
        is_sure = is_last or len(self.cluster.seats) == 1
        life = self.history.note(self.name, "share-life", partitions=names, sure=is_sure, limit=DELIVERIES)
        return consumer, life

    def _hear(self, offsets: dict[TopicPartition, frozenset[int]], error: OttlaError | None) -> None:
        for name, found in offsets.items():
            self._answers.update({(name, offset): error for offset in found})

    async def acquire(self, consumer: AsyncShareConsumer, life: int) -> list[ShareRecord]:
        """One poll, written down when it gave something or failed."""
        try:
            records = await consumer.poll(self.paced_s(1.0))
        except ERRORS as error:
            self.history.invoke(self.name, "share-poll").info(describe(error))
            await self.pause(self.paced_s(0.1))
            return []
        if records:
            plain = [
                [f"{each.topic}-{each.partition}", each.offset, int(each.value or b"-1"), each.delivery_count]
                for each in records
            ]
            self.history.invoke(self.name, "share-poll").ok(records=plain, life=life)
        return records

    async def acknowledge(
        self, consumer: AsyncShareConsumer, records: Sequence[ShareRecord], words: Sequence[AcknowledgeType]
    ) -> None:
        """Say one of these words of each record, and wait for the answers."""
        said: list[list[Any]] = []
        self._answers.clear()
        for record in records:
            word = self.random.choice(words)
            try:
                consumer.acknowledge(record, word)
            except NotHeld:
                continue
            said.append([f"{record.topic}-{record.partition}", record.offset, record.delivery_count, word.name])
        if not said:
            return
        saying = self.history.invoke(self.name, "share-ack", said=said)
        try:
            await consumer.commit(timeout=self.paced_s(COMMIT_S))
        except ERRORS as error:
            saying.info(describe(error))
            return
        answers = sorted((name_of(name), offset) for (name, offset), error in self._answers.items() if error is None)
        saying.ok(kept=[list(each) for each in answers])


class ShareDrain(ShareMember):
    """Accepts what is left once everything is healed and all others are gone."""

    async def run(self) -> None:
        draining = self.history.invoke(self.name, "share-drain")
        consumer, life = self._begin(is_last=True)
        loop, quiet_s = self.cluster.loop, self.paced_s(QUIET_S)
        began_s = last_s = loop.time()
        while loop.time() - last_s < quiet_s and loop.time() - began_s < self.paced_s(DRAIN_S):
            records = await self.acquire(consumer, life)
            await self.acknowledge(consumer, records, (AcknowledgeType.ACCEPT,))
            if records or consumer.assignment() != frozenset(self.partitions):
                last_s = loop.time()
        await close_quietly(consumer)
        if loop.time() - last_s >= quiet_s:
            draining.ok()
