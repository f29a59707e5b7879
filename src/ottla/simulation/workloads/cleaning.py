"""Topics whose old records go away: by DeleteRecords, by compaction, by size.

Who writes them is Numbers. The history says of each partition what may go (`note ... "topic"`); everything else must
be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.offsets import OffsetSpec
from ottla.simulation.workloads.base import CALL_S, ERRORS, Workload, describe, name_of
from ottla.values import TopicPartition

SETTINGS: Final[dict[str, Mapping[str, str]]] = {
    "compact": {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "600",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "5000",
    },
    "retention": {"cleanup.policy": "delete", "retention.bytes": "2000", "internal.segment.bytes": "600"},
    "cut": {"internal.segment.bytes": "1000"},
}
BROKER_SETTINGS: Final[Mapping[str, int]] = {
    "log.cleaner.backoff.ms": 1_000,
    "log.retention.check.interval.ms": 3_000,
    "log.initial.task.delay.ms": 3_000,
    "offsets.retention.check.interval.ms": 1_000,
}


def broker_settings(pace: float) -> dict[str, object]:
    """At this pace."""
    return {name: int(value * pace) for name, value in BROKER_SETTINGS.items()}


class Cutter(Workload):
    """Deletes the records before drawn offsets. When all is healed it is done once more, and must succeed."""

    def __init__(self, *arguments: Any, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*arguments)
        self._partitions = partitions

    async def run(self) -> None:
        async with self.admin() as admin:
            while not self.is_stopping:
                await self.pause(self.tempo.move_s)
                partition = self.random.choice(self._partitions)
                try:
                    end = (await admin.list_offsets({partition: OffsetSpec.LATEST}, timeout=self.paced_s(10.0)))[
                        partition
                    ].offset
                except ERRORS:
                    continue
                await self._cut(admin, partition, self.random.randint(0, max(0, end)))
            for partition in self._partitions:
                end = (await admin.list_offsets({partition: OffsetSpec.LATEST}, timeout=self.paced_s(CALL_S)))[
                    partition
                ].offset
                await self._cut(admin, partition, self.random.randint(0, end))

    async def _cut(self, admin: Any, partition: TopicPartition, before: int, timeout_s: float = CALL_S) -> None:
        cutting = self.history.invoke(self.name, "delete-records", partition=name_of(partition), before=before)
        try:
            cutting.ok(
                start=(await admin.delete_records({partition: before}, timeout=self.paced_s(timeout_s)))[partition]
            )
        except ERRORS as error:
            cutting.info(describe(error))
