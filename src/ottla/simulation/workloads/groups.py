"""Members of a group: they come, read, commit, ask what is committed, and go; classic eager, cooperative, or KIP-848.

1. A poll is written down with the group's generation (the member's epoch with KIP-848), and so is a commit: the checker
   sees whether two members read one partition in the same generation, or whether one reads what the other, who may
   still commit, has not given back.
2. Some work long on what they got, and some ask what is committed although they have committed nothing lately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.simulation.workloads.base import ERRORS, POLL_S, Workload, close_quietly, describe, name_of
from ottla.simulation.workloads.tempo import Tempo
from ottla.values import TopicPartition

KINDS: Final[dict[str, dict[str, Any]]] = {
    "group-eager": {"partition_assignment_strategy": "range"},
    "group-cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "group-consumer": {"group_protocol": "consumer"},
}
STAY: Final = 4  # times as long as it takes to be put out, on average
COMMIT_S: Final = 10.0
SLOW: Final = 0.15
CURIOUS: Final = 0.2


def member_settings(kind: str, tempo: Tempo) -> dict[str, Any]:
    """Settings of a consumer in a group of this kind."""
    patience = {"max_poll_interval_ms": tempo.member()["max_poll_interval_ms"]}
    return {**KINDS[kind], **(patience if "group_protocol" in KINDS[kind] else tempo.member())}


class Member(Workload):
    """See the module."""

    def __init__(self, *arguments: Any, kind: str, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*arguments)
        self.group = kind
        self._partitions = partitions
        self._topics = sorted({each.topic for each in partitions})

    async def run(self) -> None:
        while not self.is_stopping:
            settings = member_settings(self.group, self.tempo)
            consumer = self.consumer(*self._topics, group_id=self.group, enable_auto_commit=False, **settings)
            end_s = self.cluster.loop.time() + STAY * self.tempo.member_s * 2 * self.random.random()
            while not self.is_stopping and self.cluster.loop.time() < end_s:
                await self._read(consumer)
            await close_quietly(consumer)
            await self.pause(self.paced_s(1.0))

    async def _read(self, consumer: AsyncConsumer) -> None:
        # Offsets may come again after a rebalance, so its polls are not held against their order.
        self.history.note(self.name, "assign")
        records = await _poll_as_member(consumer, self)
        if self.random.random() < CURIOUS:
            await self._ask(consumer, self.random.choice(self._partitions))
        if records:
            with self.amid():
                await self._work(consumer, records)

    async def _work(self, consumer: AsyncConsumer, records: Sequence[Any]) -> None:
        if self.random.random() < SLOW:
            await self.pause(self.tempo.member_s)
        offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
        for partition, offset in sorted(offsets.items()):
            await self._commit(consumer, partition, offset)

    async def _commit(self, consumer: AsyncConsumer, partition: TopicPartition, offset: int) -> None:
        facts = {"group": self.group, "partition": name_of(partition)}
        generation = consumer.group_metadata().generation_id
        committing = self.history.invoke(self.name, "commit", **facts, offset=offset, generation=generation)
        try:
            await consumer.commit({partition: offset}, timeout=self.paced_s(COMMIT_S))
            committing.ok()
        except ERRORS as error:
            committing.info(describe(error))
            return
        await self._ask(consumer, partition)

    async def _ask(self, consumer: AsyncConsumer, partition: TopicPartition) -> None:
        asking = self.history.invoke(self.name, "committed", group=self.group, partition=name_of(partition))
        try:
            found = (await consumer.committed(partition, timeout=self.paced_s(COMMIT_S)))[partition]
            asking.ok(offset=-1 if found is None else found.offset)
        except ERRORS as error:
            asking.info(describe(error))


async def _poll_as_member(consumer: AsyncConsumer, member: Member) -> Sequence[Any]:
    """The generation is read in the same step in which the records were taken."""
    try:
        records = await consumer.poll(member.paced_s(POLL_S))
    except ERRORS as error:
        member.history.invoke(member.name, "poll").info(describe(error))
        await member.pause(member.paced_s(0.1))
        return []
    if records:
        plain = [[f"{each.topic}-{each.partition}", each.offset, int(each.value or b"-1")] for each in records]
        generation = consumer.group_metadata().generation_id
        member.history.invoke(member.name, "poll").ok(records=plain, group=member.group, generation=generation)
    return records
