"""Logs with bytes that cannot be read: named once, remembered, and repaired from a better copy where there is one.

    broker.corruption.report(partition, file, offset, error)

1. A batch that cannot be read is one ERROR in the log, with partition, file and offset; it stays in `found`, so that
   metrics and `doctor` can say it too, until it is repaired or gone.
2. Where another replica is in sync, the segment is repaired from it (repair.py), one partition of the broker at a time.
   True is returned then: a coordinator serves nothing from this copy until it is repaired, and is loaded again then.
3. A coordinator's partition that cannot be repaired in ATTEMPTS is given away: it goes offline on this broker, as it
   does when its disk has failed, and the controller elects another leader. Partitions of users' topics go on being
   served, without what is damaged. Where every replica in sync has damaged records there, nobody would lead better: the
   coordinator goes on as with the only copy, and the repair is tried again with every pass.
4. The only copy goes on being served; what that means is for who reads it (decision 0150).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.errors import KafkaStorageError, OttlaError
from ottla.light_tuples import NamedTuple
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replication.partition import Partition
    from ottla.storage.segment.segment import Segment

log = logging.getLogger(__name__)

ATTEMPTS: Final = 5
RETRY_MS: Final = 1_000.0


class Found(NamedTuple):
    """What cannot be read of a log: the batch that holds or follows `offset`."""

    file: Path
    offset: int
    error: str
    is_lost: bool = False  # no replica in sync has it


class Corruption:
    def __init__(self, broker: Broker, pool: Executor | None) -> None:
        self._broker = broker
        self._pool = pool
        self._waiting: dict[TopicPartition, Partition] = {}
        self._lost: dict[TopicPartition, set[tuple[Path, int]]] = {}  # no replica in sync has it
        self._is_repairing = False
        self.found: dict[TopicPartition, dict[tuple[Path, int], Found]] = {}
        self.repaired_segments = 0

    def report(self, partition: Partition, file: Path, offset: int, error: str, consequence: str = "") -> bool:
        """Returns whether it is about to be repaired. `consequence` is what it means for users when it cannot be."""
        name = partition.name
        known = self.found.setdefault(name, {})
        is_lost = (file, offset) in self._lost.get(name, ())
        before = known.get((file, offset))
        is_new = before is None or before.is_lost != is_lost
        known[file, offset] = Found(file, offset, error, is_lost)
        can_repair = partition.offline is None and bool(self._copies(partition)) and not is_lost
        if is_new:
            what = (
                "it is fetched again from another replica in sync"
                if can_repair
                else consequence or "there is no good copy in sync; the rest is served"
            )
            log.error(
                "%s cannot be read at offset %d of %s: %s. %s", name, offset, file, error, what[:1].upper() + what[1:]
            )
        if can_repair:
            self._repair_soon(partition)
        return can_repair

    def repair_known(self) -> None:
        """Try again where nobody was in sync when the damage was found."""
        for name in self.found:
            partition = self._broker.replicas.get(name)
            if partition is not None and partition.offline is None and self._copies(partition):
                self._repair_soon(partition)

    def _repair_soon(self, partition: Partition) -> None:
        self._waiting[partition.name] = partition
        if not self._is_repairing:
            self._is_repairing = True
            self._broker.background.start(self._repair_all())

    def forget(self, name: TopicPartition) -> None:
        """The partition is gone from here, or its log is sound again."""
        self.found.pop(name, None)
        self._waiting.pop(name, None)
        self._lost.pop(name, None)

    # -- repair --------------------------------------------------------------------------------------------------------

    def _copies(self, partition: Partition) -> list[int]:
        state = partition.state
        return [] if state is None else [replica for replica in state.isr if replica != self._broker.id]

    async def _repair_all(self) -> None:
        try:
            while self._waiting:
                name, partition = next(iter(self._waiting.items()))
                await self._repair(partition)
                self._waiting.pop(name, None)
        finally:
            self._is_repairing = False

    async def _repair(self, partition: Partition) -> None:
        refusal: OttlaError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._broker.clock.sleep(RETRY_MS)
            if not self._is_here(partition):
                return
            try:
                await self._repair_segments(partition)
            except KafkaStorageError as error:
                log.error("%s cannot be repaired: %s", partition.name, error)
                return
            except OttlaError as error:
                refusal = error
                continue
            self._repaired(partition)
            return
        self._give_up(partition, refusal)

    def _is_here(self, partition: Partition) -> bool:
        return partition.offline is None and self._broker.replicas.get(partition.name) is partition

    async def _repair_segments(self, partition: Partition) -> None:
        from ottla.broker.replication.repair import other_copies, repair_segment, verify_segment
        from ottla.storage.log.repair import RepairRefused

        broker, logs, name = self._broker, self._broker.replicas.logs, partition.name
        for segment in self._suspects(partition):
            if partition.log.active is segment:
                partition.log.roll(broker.clock.now_ms())
            compacted_up_to = logs.cleaner_offset(name) or 0
            async for _ in verify_segment(partition.log, segment, self.off_loop, compacted_up_to):
                pass
            if not segment.damages:
                if broker.coordinators.of_topic(name.topic) is not None:  # it would be loaded again, for ever
                    raise RepairRefused(f"each batch of {segment.path} is sound, and still it could not be loaded")
                continue
            removed = await repair_segment(
                *(partition, segment),
                copies=other_copies(partition, broker.id),
                ask=broker.link.ask_broker,
                off_loop=self.off_loop,
                now_ms=broker.clock.now_ms,
                compacted_up_to=compacted_up_to,
            )
            logs.remove_later(partition.log, removed, broker.clock.now_ms())
            self.repaired_segments += 1
            if broker.cleaning is not None:
                broker.cleaning.restart(name)

    def _suspects(self, partition: Partition) -> list[Segment]:
        files = {found.file for found in self.found.get(partition.name, {}).values()}
        return [segment for segment in partition.log.segments if segment.damages or segment.path in files]

    def _repaired(self, partition: Partition) -> None:
        self.found.pop(partition.name, None)
        self._lost.pop(partition.name, None)
        coordinator = self._broker.coordinators.of_topic(partition.name.topic)
        if coordinator is not None and partition.is_leader and self._is_here(partition):
            coordinator.load(partition)

    def _give_up(self, partition: Partition, refusal: OttlaError | None) -> None:
        from ottla.broker.replication.repair import NoGoodCopy

        name, known = partition.name, set(self.found.get(partition.name, ()))
        if isinstance(refusal, NoGoodCopy):
            if known == self._lost.get(name):
                return  # it has been said
            self._lost[name] = known
        log.error("%s could not be repaired from another replica: %s", name, refusal)
        coordinator = self._broker.coordinators.of_topic(name.topic)
        if coordinator is None or not partition.is_leader or not self._copies(partition):
            return
        if isinstance(refusal, NoGoodCopy):
            coordinator.load(partition)
        else:
            error = KafkaStorageError(f"{name} is rotten and could not be repaired: {refusal}")
            self._broker.take_offline(partition, error)

    async def off_loop(self, work: Callable[[], None]) -> None:
        """Run what reads or writes a segment on a worker, or here where there are none; what it raises is raised."""
        if self._pool is None:
            work()
        else:
            await asyncio.get_running_loop().run_in_executor(self._pool, work)
