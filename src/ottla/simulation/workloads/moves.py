"""Partitions move between brokers, preferred leaders are elected, settings change, while everybody works.

When it stops, every partition has all its copies again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ottla.client.admin.async_admin import AsyncAdmin
from ottla.client.admin.configs import AlterConfig, ConfigResource, ConfigResourceType
from ottla.simulation.workloads.base import ERRORS, Workload, describe, name_of
from ottla.values import TopicPartition

CALL_S: Final = 15.0


class Moves(Workload):
    """See the module."""

    def __init__(self, *arguments: Any, partitions: Sequence[TopicPartition], brokers: int) -> None:
        super().__init__(*arguments)
        self._partitions = partitions
        self._brokers = list(range(brokers))
        self._order = self.random.sample(self._brokers, len(self._brokers))  # its first two take turns

    async def run(self) -> None:
        async with self.admin() as admin:
            while not self.is_stopping:
                await self.pause(self.tempo.move_s)
                await self._act()(admin)
            for partition in self._partitions:
                while not await self._place(admin, partition, self._brokers):
                    await self.pause(self.paced_s(0.5))

    def _act(self) -> Callable[[AsyncAdmin], Awaitable[None]]:
        if self.tempo.turns and self.random.random() < self.tempo.turns:
            return self._take_turns
        return self.random.choice((self._move, self._elect, self._set))

    async def _take_turns(self, admin: AsyncAdmin) -> None:
        """One broker leads after the other, and soon the first again; all of them stay in sync meanwhile. They are the
        same two for the whole run: when these cannot hear each other, both write what the other one lacks."""
        partition = self.random.choice(self._partitions)
        for _ in range(self.random.randint(2, 6)):
            self._order[:2] = reversed(self._order[:2])
            if not await self._place(admin, partition, self._order):
                return
            await self._elect(admin)
            await self.pause(self.tempo.move_s / 5)

    async def _move(self, admin: AsyncAdmin) -> None:
        """At least two copies, in any order; the first is the preferred leader."""
        least = min(2, len(self._brokers))
        brokers = self.random.sample(self._brokers, self.random.randint(least, len(self._brokers)))
        await self._place(admin, self.random.choice(self._partitions), brokers)

    async def _place(self, admin: AsyncAdmin, partition: TopicPartition, brokers: Sequence[int]) -> bool:
        moving = self.history.invoke(self.name, "reassign", partition=name_of(partition), brokers=list(brokers))
        try:
            await admin.alter_partition_reassignments({partition: brokers}, timeout=self.paced_s(CALL_S))
        except ERRORS as error:
            moving.info(describe(error))
            return False
        moving.ok()
        return True

    async def _elect(self, admin: AsyncAdmin) -> None:
        electing = self.history.invoke(self.name, "elect")
        try:
            await admin.elect_leaders(timeout=self.paced_s(CALL_S))
            electing.ok()
        except ERRORS as error:
            electing.info(describe(error))

    async def _set(self, admin: AsyncAdmin) -> None:
        size = str(self.random.choice((300, 1_000, 100_000)))
        topic = self.random.choice(self._partitions).topic
        setting = self.history.invoke(self.name, "set", topic=topic, segment_bytes=size)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        try:
            await admin.incremental_alter_configs(
                {resource: [AlterConfig("internal.segment.bytes", size)]}, timeout=self.paced_s(CALL_S)
            )
            setting.ok()
        except ERRORS as error:
            setting.info(describe(error))
