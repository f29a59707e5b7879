"""Members of a group: they come, read, commit, ask what is committed, and go; classic eager, cooperative, or KIP-848.

A poll is written down with the group's generation (the member's epoch with KIP-848), so the checker sees whether two
members read one partition in the same generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.simulation.workloads.base import ERRORS, Workload, close_quietly, describe, name_of
from ottla.values import TopicPartition

KINDS: Final[dict[str, dict[str, Any]]] = {
    "group-eager": {"partition_assignment_strategy": "range", "session_timeout_ms": 6_000},
    "group-cooperative": {"partition_assignment_strategy": "cooperative-sticky", "session_timeout_ms": 6_000},
    "group-consumer": {"group_protocol": "consumer"},
}
STAY_S: Final = 20.0
COMMIT_S: Final = 10.0


class Member(Workload):
    """See the module."""

    def __init__(self, *arguments: Any, kind: str, topics: Sequence[str]) -> None:
        super().__init__(*arguments)
        self.group = kind
        self._topics = topics

    async def run(self) -> None:
        while not self.is_stopping:
            consumer = self.consumer(*self._topics, group_id=self.group, enable_auto_commit=False, **KINDS[self.group])
            end_s = self.cluster.loop.time() + STAY_S * 2 * self.random.random()
            while not self.is_stopping and self.cluster.loop.time() < end_s:
                await self._read(consumer)
            await close_quietly(consumer)
            await self.pause(1.0)

    async def _read(self, consumer: AsyncConsumer) -> None:
        # Offsets may come again after a rebalance, so its polls are not held against their order.
        self.history.note(self.name, "assign")
        records = await _poll_as_member(consumer, self)
        if records:
            offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
            for partition, offset in sorted(offsets.items()):
                await self._commit(consumer, partition, offset)

    async def _commit(self, consumer: AsyncConsumer, partition: TopicPartition, offset: int) -> None:
        facts = {"group": self.group, "partition": name_of(partition)}
        committing = self.history.invoke(self.name, "commit", **facts, offset=offset)
        try:
            await consumer.commit({partition: offset}, timeout=COMMIT_S)
            committing.ok()
        except ERRORS as error:
            committing.info(describe(error))
            return
        asking = self.history.invoke(self.name, "committed", **facts)
        try:
            found = (await consumer.committed(partition, timeout=COMMIT_S))[partition]
            asking.ok(offset=-1 if found is None else found.offset)
        except ERRORS as error:
            asking.info(describe(error))


async def _poll_as_member(consumer: AsyncConsumer, member: Member) -> Sequence[Any]:
    """The generation is read in the same step in which the records were taken."""
    try:
        records = await consumer.poll(1.0)
    except ERRORS as error:
        member.history.invoke(member.name, "poll").info(describe(error))
        await member.pause(0.1)
        return []
    if records:
        plain = [[f"{each.topic}-{each.partition}", each.offset, int(each.value or b"-1")] for each in records]
        generation = consumer.group_metadata().generation_id
        member.history.invoke(member.name, "poll").ok(records=plain, group=member.group, generation=generation)
    return records
