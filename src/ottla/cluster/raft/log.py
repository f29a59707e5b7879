"""The metadata log of a node: `__cluster_metadata-0`, an ordinary log of ours, with the snapshots of it beside it.

    log = MetadataLog.open(files, log_directory, now_ms=now_ms, limits=LogLimits())
    log.append(batches, epoch=7, now_ms=now_ms)
    job = log.flush_job(); job.run(); log.flushed(job, now_ms)        # `run` may be called by another thread
    for _ in log.write_snapshot(...): ...
    for discarded in log.clean_up(now_ms): ...                        # removed a while later

1. Batches come with their offsets and epochs in them, from a leader or from ourselves as one; a gap is refused. Nothing
   may be acknowledged, and nothing more be fetched by a voter, before `flushed_offset` has passed it: this log is
   always synced, whatever `ottla.durability` says of topics.
2. What is below the high watermark was promised: to cut it off is CommittedRecordsLost, and the node stops.
3. A snapshot may be made of what is committed, never of more. The newest one always stays. A log that begins above 0
   begins exactly where one of its snapshots ends, so nothing is ever missing.
4. While log and snapshots are larger than `retention_bytes`, or the oldest snapshot is older than `retention_ms`, the
   oldest one goes, and the log before the next one with it.
5. A log that ends before its newest snapshot, or in an epoch before it (a crash came between a fetched snapshot and the
   cut), begins anew at that.
6. Who leads syncs a batch before the next one is written. So damage before a sound batch is no torn end but rot, and
   after a stop in order so is any damage: `refuse_rot`, before the log is opened and cut. Who follows may have it cut:
   it is fetched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.cluster.metadata_log.batches import MetadataBatch, read_batches
from ottla.cluster.metadata_log.loader import Position
from ottla.cluster.raft.quorum_state import QuorumState
from ottla.cluster.raft.snapshots import (
    DELETED_SUFFIX,
    DamagedSnapshot,
    SnapshotId,
    Voters,
    parse_name,
    read_snapshot,
    write_snapshot,
)
from ottla.errors import KafkaStorageError, OffsetOutOfRange
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.metadata_log.control import VoterNode
from ottla.storage.files import Buffer, Files
from ottla.storage.log.flush import FlushJob
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd, EpochEntry
from ottla.storage.log.partition_log import PartitionLog, open_log
from ottla.storage.log.read import ReadResult
from ottla.storage.log.truncate import Removed
from ottla.storage.segment.damage import SegmentVerification
from ottla.storage.segment.names import RECORDS_SUFFIX
from ottla.storage.segment.records_file import RecordsFile
from ottla.storage.settings import TopicSettings
from ottla.values import METADATA_TOPIC_UUID, TopicPartition

METADATA_PARTITION: Final = TopicPartition("__cluster_metadata", 0)
SEGMENT_BYTES_MIN: Final = 8 << 20
"""A segment must hold the largest batch."""
READ_BYTES: Final = 1 << 20


class DamagedMetadataLog(KafkaStorageError):
    """The metadata log has rotted, so the node does not start: what it decided would be forgotten in silence.
    Copy the directory from another node of the quorum, or the file from a backup."""


class CommittedRecordsLost(KafkaStorageError):
    """The leader of the metadata log does not have what this node knows to be committed, so this node stops.
    A majority of the quorum has lost its data; compare the logs of the controllers before starting any of them."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What metadata.log.* and metadata.max.retention.* say."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000
    delete_delay_ms: int = 60_000

    def settings(self) -> TopicSettings:
        return TopicSettings(
            {
                "cleanup.policy": "",
                "segment.bytes": max(self.segment_bytes, SEGMENT_BYTES_MIN),
                "segment.ms": self.segment_ms,
                "max.message.bytes": SEGMENT_BYTES_MIN,
                "file.delete.delay.ms": self.delete_delay_ms,
            }
        )


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """What metadata.log.max.* say: when there is enough in the log for another snapshot. No interval is 0."""

    bytes_between: int = 20 << 20
    interval_ms: int = 3_600_000

    def is_due(self, bytes_since: int, age_ms: int) -> bool:
        return bytes_since >= self.bytes_between or 0 < self.interval_ms <= age_ms


class MetadataLog:
    """See above."""

    def __init__(self, log: PartitionLog, snapshots: Iterable[SnapshotId], limits: LogLimits) -> None:
        """The log of a directory with whole snapshots; `open` is how it is found."""
        self._log = log
        self._files = log.files
        self.limits = limits
        self._snapshots = sorted(snapshots)

    @classmethod
    def open(
        cls, files: Files, log_directory: Path, *, now_ms: int, limits: LogLimits, is_suspect: bool = True
    ) -> MetadataLog:
        """The log in a log directory, made if it is missing. It is always read to its end: a stop in order is told by
        other files, which belong to topics. `is_suspect`: the last sync may have failed, and the kernel may show bytes
        that it will never write."""
        directory = log_directory / str(METADATA_PARTITION)
        if not files.exists(directory):
            files.make_directory(directory)
            files.sync_directory(log_directory)
        snapshots = _find_snapshots(files, directory)
        log = open_log(
            directory,
            METADATA_PARTITION,
            limits.settings(),
            files=files,
            now_ms=now_ms,
            is_clean=False,
            is_suspect=is_suspect,
        )
        log.assign_topic_id(METADATA_TOPIC_UUID)
        found = cls(log, snapshots, limits)
        found._begin_at_snapshot(now_ms)
        return found

    def _begin_at_snapshot(self, now_ms: int) -> None:
        newest, start = self.newest_snapshot, self._log.log_start_offset
        if newest is not None and self._is_beyond_log(newest):
            for _ in read_snapshot(self._files, self.snapshot_path(newest)):
                pass  # the log goes for it, so it must be whole
            self.truncate_to_newest_snapshot(now_ms)
        elif start > 0:
            following = next((snapshot for snapshot in self._snapshots if snapshot.end_offset >= start), None)
            if following is None:
                raise DamagedSnapshot(f"{self.directory} begins at {start}, and no snapshot has what was before")
            self._move_start(following.end_offset)
        if newest is not None:
            self.update_high_watermark(newest.end_offset)

    @property
    def directory(self) -> Path:
        return self._log.directory

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything before it is on the disk."""
        return self._log.flushed_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, of the newest snapshot where there is none, or 0."""
        latest = self._log.epochs.latest
        if latest is not None:
            return latest.epoch
        return 0 if self.newest_snapshot is None else self.newest_snapshot.epoch

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """Where each epoch begins that is still in the log, oldest first; the first one may have begun before it."""
        return self._log.epochs.entries

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        """The whole ones, oldest first."""
        return tuple(self._snapshots)

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def bytes_behind_snapshot(self) -> int:
        """How much there is in the log that the newest snapshot has not."""
        newest = self.newest_snapshot
        offset = self.start_offset if newest is None else max(newest.end_offset, self.start_offset)
        if offset >= self.end_offset:
            return 0
        segments = self._log.segments.values(offset)
        return sum(segment.size_bytes for segment in segments) - self.read(offset, 1).slice.position

    def snapshot_path(self, snapshot: SnapshotId) -> Path:
        return self.directory / snapshot.file_name

    def state(self, quorum: QuorumState, voters: Sequence[VoterNode], applied: Position) -> LogState:
        """Of this log, in a quorum whose newest state and voters are these."""
        newest = self.newest_snapshot
        path = None if newest is None or not newest.end_offset else self.snapshot_path(newest)
        return LogState(
            leader_id=quorum.leader_id,
            epoch=quorum.leader_epoch,
            voted_id=quorum.voted_id,
            voters=tuple(voters),
            high_watermark=self.high_watermark,
            end_offset=self.end_offset,
            end_epoch=self.last_epoch,
            applied_offset=applied.offset,
            applied_timestamp_ms=applied.timestamp_ms,
            snapshot_bytes=0 if path is None else self._files.size(path),
            snapshot_written_ms=None if path is None else self._files.modified_ms(path),
        )

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch up to the one asked for, and where it ends here; of what only a snapshot has, that end."""
        found = self._log.end_offset_for_epoch(epoch)
        first = self._snapshots[0] if self._snapshots else None
        if found == UNKNOWN_END and first is not None and first.epoch <= epoch:
            return EpochEnd(first.epoch, first.end_offset)
        return found

    def read(self, offset: int, max_bytes: int) -> ReadResult:
        """Batches from an offset on, also uncommitted ones, as a fetch gives them."""
        return self._log.read(offset, max_bytes, up_to="log_end")

    def batches(self, offset: int, end_offset: int, *, only_controls: bool = False) -> Iterator[MetadataBatch]:
        """The batches from an offset on that end before another one, read and proved; with `only_controls` without
        the records of the others."""
        while offset < end_offset:
            start = offset
            content = self.read(offset, READ_BYTES).slice.read()
            for batch in read_batches(content, only_controls=only_controls):
                if batch.last_offset >= end_offset:
                    return
                offset = batch.last_offset + 1
                yield batch
            if offset == start:
                return

    # --- growing ------------------------------------------------------------------------------------------------------

    def append(self, batches: Buffer, *, epoch: int, now_ms: int) -> int:
        """Write batches of leaders up to `epoch`; where the log ends then."""
        first = int.from_bytes(memoryview(batches)[:8], "big") if len(batches) >= 8 else self.end_offset
        if first != self.end_offset:
            raise OffsetOutOfRange(f"batches from offset {first} cannot follow on {self.end_offset}")
        self._log.append_as_follower(batches, leader_epoch=epoch, now_ms=now_ms)
        return self.end_offset

    def flush_job(self) -> FlushJob:
        return self._log.flush_job()

    def flushed(self, job: FlushJob, now_ms: int) -> None:
        self._log.flushed(job, now_ms)

    def update_high_watermark(self, offset: int) -> int:
        """What is committed; it only grows."""
        return self._log.update_high_watermark(max(min(offset, self.end_offset), self.high_watermark))

    # --- getting shorter ----------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off what another leader does not have; on the disk when it returns."""
        if self._log.end_after_cut(offset) < self.high_watermark:
            raise CommittedRecordsLost(f"it ends at {offset}, but everything up to {self.high_watermark} is committed")
        self._log.truncate_to(offset, now_ms).remove(self._files)

    def _is_beyond_log(self, snapshot: SnapshotId) -> bool:
        """Whether it has what the log has not: more, or of a later epoch than all that is in the log, which then is no
        part of what was decided."""
        return (snapshot.epoch, snapshot.end_offset) > (self.last_epoch, self.end_offset)

    def truncate_to_newest_snapshot(self, now_ms: int) -> None:
        """Begin anew where the newest snapshot ends, which is beyond the end of the log: it was fetched."""
        newest = self.newest_snapshot
        if newest is None or not self._is_beyond_log(newest):
            raise DamagedSnapshot(f"{self.directory} has no snapshot that goes beyond its log")
        if newest.end_offset < self.high_watermark:
            raise CommittedRecordsLost(
                f"the leader's snapshot ends at {newest.end_offset}, but everything up to {self.high_watermark} is "
                "committed"
            )
        self._log.truncate_fully(newest.end_offset, now_ms).remove(self._files)
        self._log.update_high_watermark(newest.end_offset)
        for snapshot in self._snapshots[:-1]:
            self._files.remove(self._discard_snapshot(snapshot))

    def clean_up(self, now_ms: int) -> Iterator[Discarded]:
        """Take out what is too old or too much, a snapshot at a time. What comes out is to be removed after
        `delete_delay_ms`, so that answers under way can still be read."""
        while len(self._snapshots) > 1 and self._is_too_much(now_ms):
            oldest, following = self._snapshots[:2]
            self._move_start(following.end_offset)
            segments = self._log.segments_below_log_start()
            removed = self._log.delete_segments(segments, "a snapshot has what is in them", now_ms)
            yield Discarded(removed, (self._discard_snapshot(oldest),))

    def _is_too_much(self, now_ms: int) -> bool:
        oldest = self.snapshot_path(self._snapshots[0])
        if now_ms - self._files.modified_ms(oldest) > self.limits.retention_ms:
            return True
        snapshots = sum(self._files.size(self.snapshot_path(snapshot)) for snapshot in self._snapshots)
        return self._log.size_bytes + snapshots > self.limits.retention_bytes

    def _move_start(self, offset: int) -> None:
        """A snapshot is only made of what is committed, so its end is, too."""
        self._log.update_high_watermark(max(self.high_watermark, offset))
        self._log.advance_log_start(offset)

    def _discard_snapshot(self, snapshot: SnapshotId) -> Path:
        path = self.snapshot_path(snapshot)
        gone = path.with_name(path.name + DELETED_SUFFIX)
        self._files.rename(path, gone)
        self._snapshots.remove(snapshot)
        return gone

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def write_snapshot(
        self,
        snapshot: SnapshotId,
        values: Iterable[bytes],
        *,
        last_timestamp_ms: int,
        now_ms: Callable[[], int],
        voters: Voters,
    ) -> Iterator[None]:
        """Write a snapshot of committed records, in steps; it counts after the last one."""
        if snapshot.end_offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"a snapshot of everything before {snapshot.end_offset}, but only what is before {self.high_watermark} "
                "is committed"
            )
        yield from write_snapshot(
            self._files,
            self.snapshot_path(snapshot),
            values,
            epoch=snapshot.epoch,
            last_timestamp_ms=last_timestamp_ms,
            now_ms=now_ms,
            voters=voters,
        )
        self.add_snapshot(snapshot)

    def add_snapshot(self, snapshot: SnapshotId) -> None:
        """A whole one is there, written or fetched."""
        if snapshot not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, snapshot])

    def close(self, *, is_clean: bool = True) -> None:
        self._log.close(is_clean=is_clean)


class LogState(NamedTuple):
    """What a node can tell of its metadata log: who leads it, how far it is, and how far it is applied here."""

    leader_id: int
    epoch: int
    voted_id: int
    voters: tuple[VoterNode, ...]
    high_watermark: int
    end_offset: int
    end_epoch: int
    applied_offset: int
    applied_timestamp_ms: int
    snapshot_bytes: int
    snapshot_written_ms: int | None


class Discarded(NamedTuple):
    """What is out of the log, and still on the disk."""

    removed: Removed
    snapshots: tuple[Path, ...]

    def remove(self, files: Files) -> None:
        self.removed.remove(files)
        for path in self.snapshots:
            files.remove(path, missing_ok=True)


def refuse_rot(files: Files, log_directory: Path, *, stopped_in_order: bool) -> None:
    """Look at the last segment of who led, before it is opened; what stands before it is proved when it is read."""
    directory = log_directory / str(METADATA_PARTITION)
    names = files.list_directory(directory) if files.exists(directory) else []
    path = max((directory / name for name in names if name.endswith(RECORDS_SUFFIX)), default=None)
    if path is None:
        return
    file = files.open(path, read_only=True)
    try:
        records, base_offset = RecordsFile(file, file.size()), int(path.stem)
        verification = SegmentVerification(records, (), base_offset, end_offset=base_offset, has_gaps=False)
        for _ in verification:
            pass
    finally:
        file.close()
    for damage in verification.damages:
        if stopped_in_order or damage.end_position < records.size_bytes:
            raise DamagedMetadataLog(f"{path}: {damage}")


def _find_snapshots(files: Files, directory: Path) -> list[SnapshotId]:
    """The whole ones; what a crash left of others is removed."""
    whole = []
    for name in files.list_directory(directory):
        snapshot = parse_name(name)
        if snapshot is None:
            continue
        if snapshot.suffix:
            files.remove(directory / name)
        else:
            whole.append(snapshot.id)
    return whole
