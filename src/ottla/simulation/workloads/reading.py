"""Who only reads: along with the writers, at the ends of the partitions, and everything when all is healed.

1. `Follower` has partitions assigned and reads from the beginning for as long as the run takes. Now and then it asks
   for the ends: what it has read must be before them.
2. `Watcher` asks for the ends of partitions: the high watermark (read_uncommitted), the last stable offset
   (read_committed). Neither may ever go back.
3. `FinalRead` is a fresh client. It waits until no transaction is open any more (`waits`: the first of them does),
   reads from the beginning to where the ends are then, and asks what groups have committed. What rotted of the only
   copy it passes over as an operator would: from what the broker says that it cannot read to what is behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.client.consumer.async_consumer import AsyncConsumer
from ottla.simulation.workloads.base import CALL_S, ERRORS, Workload, close_quietly, describe, name_of, poll
from ottla.values import TopicPartition

STABLE_S: Final = 90.0
CURIOUS: Final = 0.3


class Reading(Workload):
    """What the three have: the partitions they read."""

    def __init__(self, *arguments: Any, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*arguments)
        self.partitions = partitions

    async def ask(self, consumer: AsyncConsumer, isolation: str) -> None:
        """Where partitions end, for readers of this kind."""
        asking = self.history.invoke(self.name, "ends", isolation=isolation)
        try:
            found = await consumer.end_offsets(self.partitions, timeout=self.paced_s(10.0))
            asking.ok(ends={name_of(partition): offset for partition, offset in found.items()})
        except ERRORS as error:
            asking.info(describe(error))


class Follower(Reading):
    """See the module. Half of them read what is not committed, too."""

    async def run(self) -> None:
        isolation = self.random.choice(("read_committed", "read_uncommitted"))
        consumer = self.consumer(isolation_level=isolation)
        self.history.note(self.name, "assign")
        await consumer.assign(self.partitions)
        while not self.is_stopping:
            if await poll(consumer, self, isolation=isolation) and self.random.random() < CURIOUS:
                await self.ask(consumer, isolation)
        await close_quietly(consumer)


class Watcher(Reading):
    """See the module."""

    async def run(self) -> None:
        kinds = ("read_uncommitted", "read_committed")
        consumers = {kind: self.consumer(isolation_level=kind) for kind in kinds}
        while not self.is_stopping:
            await self.pause(self.tempo.watch_s)
            kind = self.random.choice(kinds)
            await self.ask(consumers[kind], kind)
        for consumer in consumers.values():
            await close_quietly(consumer)


class FinalRead(Reading):
    """See the module."""

    def __init__(
        self,
        *arguments: Any,
        partitions: Sequence[TopicPartition],
        groups: Sequence[str],
        isolation: str,
        waits: bool,
    ) -> None:
        super().__init__(*arguments, partitions=partitions)
        self._groups = groups
        self._isolation = isolation
        self._waits = waits

    async def run(self) -> None:
        consumer = self.consumer(isolation_level=self._isolation)
        if self._waits:
            await self._wait_until_stable(consumer)
        await self._read_all(consumer)
        await close_quietly(consumer)
        for group in self._groups:
            await self._ask_committed(group)

    async def _read_all(self, consumer: AsyncConsumer) -> None:
        reading = self.history.invoke(self.name, "final-read", isolation=self._isolation)
        self.history.note(self.name, "assign")
        await consumer.assign(self.partitions)
        ends = await consumer.end_offsets(self.partitions, timeout=self.paced_s(CALL_S))
        await consumer.seek_to_beginning(*self.partitions)
        while any(
            [await consumer.position(each, timeout=self.paced_s(CALL_S)) < ends[each] for each in self.partitions]
        ):
            if not await poll(consumer, self, "final-poll", isolation=self._isolation):
                await self._pass_damage(consumer)
        # Asked when all is read: what retention deletes meanwhile cannot be read, and is not lost.
        starts = await consumer.beginning_offsets(self.partitions, timeout=self.paced_s(CALL_S))
        reading.ok(
            starts={name_of(each): offset for each, offset in starts.items()},
            ends={name_of(each): offset for each, offset in ends.items()},
        )

    async def _pass_damage(self, consumer: AsyncConsumer) -> None:
        for partition in self.partitions:
            offset = await consumer.position(partition, timeout=self.paced_s(CALL_S))
            damage = self.cluster.damage_at(*partition, offset)
            if damage is not None:
                self.history.note(
                    self.name, "pass", partition=name_of(partition), first=offset, following=damage.next_offset
                )
                consumer.seek(partition, damage.next_offset)

    async def _wait_until_stable(self, committed: AsyncConsumer) -> None:
        """Until the last stable offset of every partition is its end."""
        waiting = self.history.invoke(self.name, "final-stable")
        uncommitted = self.consumer(isolation_level="read_uncommitted")
        end_s = self.cluster.loop.time() + self.paced_s(STABLE_S)
        while True:
            ends = await uncommitted.end_offsets(self.partitions, timeout=self.paced_s(CALL_S))
            stable = await committed.end_offsets(self.partitions, timeout=self.paced_s(CALL_S))
            if ends == stable:
                waiting.ok()
                break
            if self.cluster.loop.time() > end_s:
                open_ones = [name_of(each) for each in self.partitions if stable[each] != ends[each]]
                waiting.info(f"transactions are open after {self.paced_s(STABLE_S):g} s: {', '.join(open_ones)}")
                break
            await self.pause(self.paced_s(0.5))
        await close_quietly(uncommitted)

    async def _ask_committed(self, group: str) -> None:
        asking = self.history.invoke(self.name, "final-committed", group=group)
        async with self.admin() as admin:
            found = await admin.list_consumer_group_offsets(group, require_stable=True, timeout=self.paced_s(CALL_S))
        asking.ok(offsets={name_of(each): offset.offset for each, offset in found.items() if offset is not None})
