"""How the metadata log grows at who follows: what is asked of the leader, and what an answer does to the log.

1. The log is pulled: Fetch is question, heartbeat and acknowledgement in one. What comes may be uncommitted.
2. Where logs differ the leader says so in its answer, and the end is cut off; below the high watermark that is
   CommittedRecordsLost. What the leader no longer has in its log comes as a snapshot, in pieces.
3. Voters hold as soon as they are appended, and not any more when they are cut off.

No sockets and no clock; whose answers may be taken in is decided by raft.py.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from ottla.cluster.raft.log import METADATA_PARTITION, MetadataLog
from ottla.cluster.raft.snapshots import DamagedSnapshot, FetchedSnapshot, SnapshotId, read_snapshot
from ottla.cluster.raft.voters import VoterHistory
from ottla.errors import CorruptMessage, OffsetOutOfRange
from ottla.light_dataclasses import dataclass
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.storage.files import Files
from ottla.values import METADATA_TOPIC_UUID

logger = logging.getLogger(__name__)

SNAPSHOT_GONE: Final = (98, 99)
"""SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE: the leader has a newer one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks."""

    cluster_id: str
    node_id: int
    directory_id: bytes


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is asked for at once, and how long the leader may wait for it."""

    max_wait_ms: int = 500
    max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20


Request: TypeAlias = fetch.FetchRequest | fetch_snapshot.FetchSnapshotRequest
Response: TypeAlias = fetch.FetchResponse | fetch_snapshot.FetchSnapshotResponse


class Fetching:
    """See above."""

    def __init__(
        self,
        files: Files,
        log: MetadataLog,
        identity: Identity,
        limits: FetchLimits,
    ) -> None:
        self.log = log
        self.voters = VoterHistory()
        self.leader_high_watermark: int | None = None
        """The last one that a leader told; None before the first."""
        self.has_fetched = False
        """From a leader, in this life."""
        self._files = files
        self._identity = identity
        self._limits = limits
        self._fetched: tuple[SnapshotId, FetchedSnapshot] | None = None
        self._read_voters()

    def _read_voters(self) -> None:
        newest = self.log.newest_snapshot
        if newest is not None:
            self.voters.begin(read_snapshot(self._files, self.log.snapshot_path(newest)))
        self.appended(self.log.start_offset)

    def appended(self, offset: int) -> None:
        """Who votes is told by what was appended from an offset on."""
        for batch in self.log.batches(offset, self.log.end_offset, only_controls=True):
            self.voters.add(batch)

    # --- asking -------------------------------------------------------------------------------------------------------

    def request(self, epoch: int) -> Request:
        if self._fetched is not None:
            return self._fetch_snapshot(epoch, *self._fetched)
        partition = fetch.FetchPartition(
            partition=METADATA_PARTITION.partition,
            current_leader_epoch=epoch,
            fetch_offset=self.log.end_offset,
            last_fetched_epoch=self.log.last_epoch,
            partition_max_bytes=0,
            replica_directory_id=self._identity.directory_id,
            high_watermark=self.log.high_watermark if self.has_fetched else -1,
        )
        return fetch.FetchRequest(
            cluster_id=self._identity.cluster_id,
            replica_state=fetch.ReplicaState(replica_id=self._identity.node_id),
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=0,
            max_bytes=self._limits.max_bytes,
            topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_UUID, partitions=[partition])],
        )

    def _fetch_snapshot(
        self, epoch: int, wanted: SnapshotId, fetched: FetchedSnapshot
    ) -> fetch_snapshot.FetchSnapshotRequest:
        partition = fetch_snapshot.PartitionSnapshot(
            partition=METADATA_PARTITION.partition,
            current_leader_epoch=epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=fetched.position,
            replica_directory_id=self._identity.directory_id,
        )
        return fetch_snapshot.FetchSnapshotRequest(
            cluster_id=self._identity.cluster_id,
            replica_id=self._identity.node_id,
            max_bytes=self._limits.snapshot_max_bytes,
            topics=[fetch_snapshot.TopicSnapshot(name=METADATA_PARTITION.topic, partitions=[partition])],
        )

    # --- answers of the leader: whether they were any good ------------------------------------------------------------

    def fetch_answered(self, partition: fetch.PartitionData, epoch: int, now_ms: int) -> bool:
        self.has_fetched = True
        if partition.diverging_epoch.epoch >= 0:
            self._cut(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset, now_ms)
            return True
        if partition.snapshot_id.epoch >= 0:
            self.drop_snapshot()
            wanted = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            self._fetched = wanted, FetchedSnapshot(self._files, self.log.snapshot_path(wanted))
            return True
        return self._append(bytes(partition.records or b""), partition.high_watermark, epoch, now_ms)

    def _append(self, records: bytes, high_watermark: int, epoch: int, now_ms: int) -> bool:
        before = self.log.end_offset
        try:
            self.log.append(records, epoch=epoch, now_ms=now_ms)
        except (CorruptMessage, OffsetOutOfRange) as problem:
            logger.warning("what the leader of the metadata log sent is not taken, and asked for again: %s", problem)
            return False
        self.appended(before)
        self.log.update_high_watermark(high_watermark)
        if high_watermark >= 0:
            self.leader_high_watermark = high_watermark
        return True

    def _cut(self, epoch: int, end_offset: int, now_ms: int) -> None:
        """Cut off what the leader does not have: its largest epoch up to our last one ends there."""
        own = self.log.end_offset_for_epoch(epoch)
        if epoch == 0:
            common = min(self.log.end_offset, end_offset)
        elif own.epoch == epoch:
            common = min(own.end_offset, end_offset)
        else:
            common = max(own.end_offset, 0)
        self.log.truncate_to(common, now_ms)
        self.voters.cut(self.log.end_offset)

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def drop_snapshot(self) -> None:
        """Forget the one that is being fetched."""
        if self._fetched is not None:
            self._fetched[1].drop()
            self._fetched = None

    def snapshot_answered(self, partition: fetch_snapshot.ResponsePartitionSnapshot, now_ms: int) -> bool:
        if self._fetched is None:
            return False
        wanted, fetched = self._fetched
        if partition.position != fetched.position:
            self.drop_snapshot()
            return True
        fetched.add(partition.unaligned_records)
        return fetched.position < partition.size or self._finish_snapshot(wanted, fetched, now_ms)

    def _finish_snapshot(self, wanted: SnapshotId, fetched: FetchedSnapshot, now_ms: int) -> bool:
        self._fetched = None
        try:
            for _ in fetched.finish():
                pass
        except DamagedSnapshot:
            fetched.drop()
            return False
        self.log.add_snapshot(wanted)
        self.log.truncate_to_newest_snapshot(now_ms)
        self.voters.begin(read_snapshot(self._files, self.log.snapshot_path(wanted)))
        return True
