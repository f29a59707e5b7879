"""Topics whose old records go away: by DeleteRecords, by compaction, by size.

Who writes them is Numbers. The history says of each partition what may go (`note ... "topic"`); everything else must
be there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.admin.offsets import OffsetSpec
from ottla.simulation.workloads.base import ERRORS, Workload, describe, name_of
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
BROKER_SETTINGS: Final[Mapping[str, object]] = {
    "log.cleaner.backoff.ms": 1_000,
    "log.retention.check.interval.ms": 3_000,
    "log.initial.task.delay.ms": 3_000,
    "offsets.retention.check.interval.ms": 5_000,
}
CUT_PAUSE_S: Final = 4.0


class Cutter(Workload):
    """Deletes the records before drawn offsets."""

    def __init__(self, *arguments: Any, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(*arguments)
        self._partitions = partitions

    async def run(self) -> None:
        async with self.admin() as admin:
            while not self.is_stopping:
                await self.pause(CUT_PAUSE_S)
                partition = self.random.choice(self._partitions)
                try:
                    end = (await admin.list_offsets({partition: OffsetSpec.LATEST}, timeout=10.0))[partition].offset
                except ERRORS:
                    continue
                await self._cut(admin, partition, self.random.randint(0, max(0, end)))

    async def _cut(self, admin: Any, partition: TopicPartition, before: int) -> None:
        cutting = self.history.invoke(self.name, "delete-records", partition=name_of(partition), before=before)
        try:
            cutting.ok(start=(await admin.delete_records({partition: before}, timeout=10.0))[partition])
        except ERRORS as error:
            cutting.info(describe(error))
