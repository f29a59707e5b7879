"""The metadata log that a quorum keeps, as its leader sees it: one log for all nodes of the simulation.

    quorum.elect(101)                         # an epoch begins; what was not committed is there, in part or not at all
    end = quorum.append(changes)              # in the log at once, committed a moment later
    await quorum.committed(end)               # False when another leader came first

1. What is appended can be fetched at once, and counts COMMIT_S later, as if a majority had synced it; never, while the
   leader is cut off from it. So whoever follows may have records that the next leader does not have.
2. `image` is that of the end of the log: the next decision is made on what is not committed yet.
3. Snapshots are made after SNAPSHOT_BYTES of records, and the log before them goes: who was away for long gets one.
4. It belongs to no process, and is never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, Final

from ottla.cluster.changes import Change
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batches import control_batch, data_batch, read_batches
from ottla.cluster.metadata_log.loader import MetadataLoader
from ottla.cluster.metadata_log.writing import records_for, snapshot_records
from ottla.cluster.raft.log import LogLimits, MetadataLog
from ottla.cluster.raft.snapshots import SnapshotId, Voters, read_snapshot
from ottla.protocol.metadata_log.control import LeaderChangeMessage, Voter
from ottla.simulation.loop import SimulationLoop
from ottla.testing.files import MemoryFiles

COMMIT_S: Final = (0.000_5, 0.010)
SNAPSHOT_BYTES: Final = (2_000, 8_000, 1 << 30)
NOBODY: Final = -1
LIMITS: Final = LogLimits(retention_bytes=1, delete_delay_ms=0)
FIRST_MS: Final = 1_600_000_000_000


class Quorum:
    """See the module."""

    def __init__(self, loop: SimulationLoop, random: Random, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.loop = loop
        self.leader = NOBODY
        self.epoch = 0
        self.is_cut_off = False  # the leader is, from the majority: it appends, and commits nothing
        self.random = random
        self.files = MemoryFiles(seed=random.getrandbits(32), now_ms=self.now_ms)
        self.log = MetadataLog.open(self.files, Path("/"), now_ms=self.now_ms(), limits=LIMITS)
        self._snapshot_bytes = random.choice(SNAPSHOT_BYTES)
        self._loader = MetadataLoader(cluster_id)
        self._waiting: list[tuple[int, asyncio.Future[bool]]] = []
        self._grown: list[asyncio.Future[None]] = []

    def now_ms(self) -> int:
        return FIRST_MS + int(self.loop.time() * 1_000)

    @property
    def image(self) -> ClusterImage:
        """With all that is in the log."""
        return self._loader.image

    # --- leading ------------------------------------------------------------------------------------------------------

    def elect(self, node: int) -> None:
        """This node leads from now on. Of what is not committed it has the first part, drawn by whole batches."""
        ends = [batch.last_offset + 1 for batch in self.log.batches(self.log.high_watermark, self.log.end_offset)]
        self._cut(self.random.choice([self.log.high_watermark, *ends]))
        self.epoch += 1
        self.leader = node
        self.is_cut_off = False
        me = Voter(voter_id=node)
        change = LeaderChangeMessage(leader_id=node, voters=[me], granting_voters=[me])
        self._add(
            control_batch([change], base_offset=self.log.end_offset, epoch=self.epoch, timestamp_ms=self.now_ms())
        )

    def depose(self) -> None:
        """Nobody leads; whoever waits for a commit, or for more of the log, hears it."""
        self.leader = NOBODY
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            _resolve(future, False)
        self._notify_grown()

    def _cut(self, offset: int) -> None:
        if offset >= self.log.end_offset:
            return
        self.log.truncate_to(offset, self.now_ms())
        self._loader = MetadataLoader(self.cluster_id)
        newest = self.log.newest_snapshot
        if newest is not None:
            batches = read_snapshot(self.files, self.log.snapshot_path(newest))
            for _ in self._loader.load_snapshot(batches, end_offset=newest.end_offset, epoch=newest.epoch):
                pass
        for batch in self.log.batches(self._loader.end_offset, self.log.end_offset):
            self._loader.add(batch)

    # --- growing ------------------------------------------------------------------------------------------------------

    def append(self, changes: Iterable[Change]) -> int:
        """Where the log ends with these changes."""
        values = [record.encode() for record in records_for(changes, self.image)]
        if values:
            end = self.log.end_offset
            self._add(data_batch(values, base_offset=end, epoch=self.epoch, timestamp_ms=self.now_ms()))
        return self.log.end_offset

    def _add(self, batch: bytes) -> None:
        end = self.log.append(batch, epoch=self.epoch, now_ms=self.now_ms())
        for each in read_batches(batch):
            self._loader.add(each)
        low_s, high_s = COMMIT_S
        self.loop.call_later(
            low_s + (high_s - low_s) * self.random.random(),
            self._commit,
            end,
            self.epoch,
            context=self.loop.outside.context.copy(),
        )
        self._notify_grown()

    def _commit(self, end: int, epoch: int) -> None:
        if epoch != self.epoch or self.leader == NOBODY or self.is_cut_off or end <= self.log.high_watermark:
            return
        self.log.update_high_watermark(end)
        due = [future for offset, future in self._waiting if offset <= end]
        self._waiting = [(offset, future) for offset, future in self._waiting if offset > end]
        for future in due:
            _resolve(future, True)
        self._notify_grown()
        self._make_snapshot()

    async def committed(self, end: int) -> bool:
        """Whether everything before `end` is committed by this leader; waits until that is known."""
        if end <= self.log.high_watermark:
            return True
        if self.leader == NOBODY:
            return False
        future: asyncio.Future[bool] = self.loop.create_future()
        self._waiting.append((end, future))
        return await future

    def grown(self) -> asyncio.Future[None]:
        """Resolved when there is more, or more of it is committed, or nobody leads any more."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._grown.append(future)
        return future

    def _notify_grown(self) -> None:
        grown, self._grown = self._grown, []
        for future in grown:
            _resolve(future, None)

    def _make_snapshot(self) -> None:
        """Of everything, when all of it is committed."""
        end = self.log.high_watermark
        if end != self.log.end_offset or self.log.bytes_behind_snapshot < self._snapshot_bytes:
            return
        position = self._loader.position
        steps = self.log.write_snapshot(
            SnapshotId(end, position.epoch),
            (record.encode() for record in snapshot_records(self.image)),
            last_timestamp_ms=position.timestamp_ms,
            now_ms=self.now_ms,
            voters=Voters(),
        )
        for _ in steps:
            pass
        for discarded in self.log.clean_up(self.now_ms()):
            discarded.remove(self.files)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)
