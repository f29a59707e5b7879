"""The default store: one node whose controller writes Kafka's metadata log, `__cluster_metadata-0`.

    store = KRaftStore(log_directory, cluster_id, files=files, node=..., now_ms=..., random_bytes=..., first=...)
    image = store.load()                                  # reads the log, begins an epoch, registers the controller
    image = store.commit(changes)                         # as records, on the disk when it returns

1. The image is the fold of the records, nothing else: a commit is made into records, these are read as any reader of
   the log reads them, and what comes out is the image when they are on the disk. `change_number` is the offset of the
   last record; the epoch of a broker is the offset of its registration.
2. A commit is one batch: all of it is there after a crash, or nothing. More than a batch may have (RECORDS_PER_BATCH,
   BATCH_BYTES) lies between a BeginTransactionRecord and its end; one that a crash left open is aborted at the next
   start.
3. A write or sync that fails makes the store refuse all further commits: what the disk has is not known any more, and
   the kernel forgets a failed sync. A full disk alone is no such failure: the commit is refused, and may be repeated.
4. A new log begins with `first`: what `kafka-storage format` wrote down, which is read then and never again.
5. `commit` does three things that can also be done apart, so that an event loop need not wait for the disk: `begin`
   decides and makes the bytes, `PendingChange.write` writes and syncs (only that may run in another thread), `finish`
   makes it true. One commit at a time, and `upkeep` is one, too: a snapshot when the log has grown, in steps.
6. Topics whose deletion is in the log are remembered, so that a crash before their logs were removed leaves nothing
   (`was_deleted`). What a snapshot has swallowed is forgotten: such a log is set aside as stray, and kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.cluster.changes import (
    Change,
    RegisterBroker,
    RegisterController,
    UnregisterBroker,
)
from ottla.cluster.features import KRAFT_RANGE
from ottla.cluster.image import ClusterImage
from ottla.cluster.metadata_log.batch_plans import BatchPlan, plan_of, planned
from ottla.cluster.metadata_log.loader import MetadataLoader, Position
from ottla.cluster.metadata_log.writing import VersionedRecord, snapshot_records
from ottla.cluster.model import Broker, ControllerNode, Endpoint, FeatureRange
from ottla.cluster.quorum_controller.activation import abort_records, first_records, has_begun
from ottla.cluster.raft.log import LogLimits, LogState, MetadataLog, SnapshotRules
from ottla.cluster.raft.snapshots import RECORD_OVERHEAD_BYTES, Voters
from ottla.cluster.raft.solo import LocalNode, QuorumOfOne
from ottla.cluster.store.deletions import Deletions
from ottla.cluster.store.interface import Controller, StoreClosed, StoreFailed
from ottla.errors import DiskFull, KafkaStorageError, StorageExhausted
from ottla.light_dataclasses import dataclass, replace
from ottla.protocol.metadata_log.control import KRaftVersionFeature, VoterEndpoint, VoterNode, VotersRecord
from ottla.protocol.metadata_log.topics import RemoveTopicRecord
from ottla.storage.files import Files
from ottla.values import random_uuid

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KRaftNode:
    """What a node says of itself as a controller. `endpoints` is where others reach it as one. Where its settings name
    the voters (controller.quorum.voters), a new log does not: its kraft.version is 0."""

    id: int
    endpoints: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    voters_are_settings: bool = False


LIMITS: Final = LogLimits()
RULES: Final = SnapshotRules()


class PendingChange:
    """A commit that is decided and not yet written. Only `write` may run in another thread."""

    def __init__(self, store: KRaftStore, plan: BatchPlan) -> None:
        self.image, self.changes, self.batches = plan.image, plan.changes, plan.batches
        self._store = store

    def write(self) -> None:
        """Write and sync; raises what `commit` raises."""
        self._store._write(self.batches)


class KRaftStore:
    """An OwnStore; see the module. The directory is locked."""

    def __init__(
        self,
        log_directory: Path,
        cluster_id: str,
        *,
        files: Files,
        node: KRaftNode,
        local: LocalNode,
        now_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        first: Callable[[], Sequence[Change]] = tuple,
        limits: LogLimits = LIMITS,
        rules: SnapshotRules = RULES,
    ) -> None:
        self._directory = log_directory
        self._files = files
        self._node = node
        self._local = local
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._first = first
        self._limits = limits
        self._rules = rules
        self._loader = MetadataLoader(cluster_id)
        self._quorum: QuorumOfOne | None = None
        self._image = self._loader.image
        self._position = Position()
        self._snapshot_ms = 0
        self._bytes_since = 0  # the snapshot
        self._deletions = Deletions()
        self._failure: str | None = None
        self._closed = False
        self.membership = self
        self.election = self

    # --- reading ------------------------------------------------------------------------------------------------------

    def load(self) -> ClusterImage:
        """The newest image; the first call opens the log and leads it."""
        if self._quorum is None:
            self._open()
        return self._image

    @property
    def quorum(self) -> QuorumOfOne:
        self.load()
        assert self._quorum is not None
        return self._quorum

    @property
    def directory_id(self) -> bytes:
        return self._local.directory_id

    @property
    def stopped_in_order(self) -> bool:
        return self._local.stopped_in_order

    def was_deleted(self, topic_id: bytes) -> bool:
        return topic_id in self._deletions

    @property
    def has_failed(self) -> bool:
        """Whether a write failed: nothing is changed any more until the next start."""
        return self._failure is not None

    # --- starting -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed
        quorum = QuorumOfOne(self._files, self._directory, self._local, now_ms=self._now_ms, limits=self._limits)
        try:
            self._begin(quorum)
        except BaseException:
            self._quorum = None
            quorum.close(is_clean=False)
            raise

    def _begin(self, quorum: QuorumOfOne) -> None:
        loader = self._loader = MetadataLoader(self._loader.image.cluster_id)
        for batch in quorum.load(loader):
            for record in () if batch is None else batch.records:
                if isinstance(record, RemoveTopicRecord):
                    self._deletions.add(record.topic_id)
        quorum.lead(self._first_voters(quorum.node))
        self._quorum = quorum
        self._snapshot_ms = self._now_ms()
        self._bytes_since = quorum.log.bytes_behind_snapshot
        self._image = replace(
            loader.image,
            controller_id=self._node.id,
            controller_epoch=quorum.epoch,
            kraft_version=quorum.voters.kraft_version,
        )
        self._position = loader.position
        if loader.in_transaction:
            self._append((), abort_records("the controller that began it stopped"))
        if not has_begun(self._image):
            first = self._first()
            self._append(first, first_records(self._image, first))
        controller = ControllerNode(
            self._node.id, random_uuid(self._random_bytes), self._node.endpoints, self._node.features
        )
        self.commit([RegisterController(controller)])

    def _first_voters(self, node: LocalNode) -> Voters:
        """This node alone, as `kafka-storage format --standalone` says it."""
        if self._node.voters_are_settings:
            return Voters()
        endpoints = [
            VoterEndpoint(name=endpoint.listener, host=endpoint.host, port=endpoint.port)
            for endpoint in self._node.endpoints
        ]
        levels = KRaftVersionFeature(
            min_supported_version=KRAFT_RANGE.min_level, max_supported_version=KRAFT_RANGE.max_level
        )
        voter = VoterNode(
            voter_id=node.id, voter_directory_id=node.directory_id, endpoints=endpoints, k_raft_version_feature=levels
        )
        return Voters(KRAFT_RANGE.max_level, VotersRecord(voters=[voter]))

    def _append(self, changes: Sequence[Change], records: Sequence[VersionedRecord]) -> None:
        if records:
            plan = plan_of(self._image, changes, [records], next_offset=self.quorum.next_offset)
            pending = PendingChange(self, plan)
            pending.write()
            self.finish(pending)

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change]) -> ClusterImage:
        pending = self.begin(changes)
        pending.write()
        return self.finish(pending)

    def begin(self, changes: Sequence[Change]) -> PendingChange:
        """Decide, and make the bytes."""
        image = self.load()
        self._refuse_after_failure()
        plan = planned(image, changes, next_offset=self.quorum.next_offset, random_bytes=self._random_bytes)
        return PendingChange(self, plan)

    def finish(self, pending: PendingChange) -> ClusterImage:
        """The commit is written: make it true."""
        if pending.batches:
            self._bytes_since += sum(len(value) + RECORD_OVERHEAD_BYTES for batch in pending.batches for value in batch)
            self._position = Position(pending.image.change_number, self.quorum.epoch, self._now_ms())
            self._image = pending.image
            self._deletions.note(pending.changes)
        return self._image

    def _write(self, batches: Sequence[Sequence[bytes]]) -> None:
        self._refuse_after_failure()
        try:
            self.quorum.append(batches)
        except DiskFull:
            raise
        except KafkaStorageError as error:
            self._failure = str(error)
            raise StoreFailed(str(error)) from error

    def _refuse_after_failure(self) -> None:
        if self._closed:
            raise StoreClosed
        if self._failure is not None:
            raise StoreFailed(f"an earlier write failed: {self._failure}")

    # --- the only member ----------------------------------------------------------------------------------------------

    def register(self, broker: Broker) -> Broker:
        """The epoch of a registration is the offset of its record."""
        incarnation_id = random_uuid(self._random_bytes)
        registered = replace(broker, epoch=self.quorum.next_offset, incarnation_id=incarnation_id)
        self.commit([RegisterBroker(registered)])
        return registered

    def leave(self, broker_id: int) -> None:
        if broker_id in self.load().brokers:
            self.commit([UnregisterBroker(broker_id)])

    def stand(self, broker_id: int) -> Controller:
        """There is nobody else: it leads since the log was opened."""
        return Controller(broker_id, self.quorum.epoch)

    def resign(self, broker_id: int) -> None:
        """There is nobody else."""

    def log_state(self) -> LogState:
        """For those who look after it."""
        return self.quorum.log.state(self.quorum.state, self.quorum.voter_nodes, self._position)

    @property
    def metadata_log(self) -> MetadataLog:
        """To be read."""
        return self.quorum.log

    # --- upkeep -------------------------------------------------------------------------------------------------------

    @property
    def upkeep_is_due(self) -> bool:
        """Whether there is enough in the log since the newest snapshot."""
        if self._failure is not None or self._closed or self._quorum is None:
            return False
        newest = self._quorum.log.newest_snapshot
        if newest is not None and newest.end_offset >= self._position.end_offset:
            return False
        return self._rules.is_due(self._bytes_since, self._now_ms() - self._snapshot_ms)

    def upkeep(self) -> Iterator[None]:
        """Write a snapshot, and let go of what is too old, in steps; commits wait meanwhile. Nothing is done when one
        was written since this was begun: every commit that finds it due may begin it."""
        if not self.upkeep_is_due:
            return
        position, image = self._position, self._image
        values = (record.encode() for record in snapshot_records(image))
        try:
            yield from self.quorum.snapshot(position.end_offset, position.epoch, position.timestamp_ms, values)
        except StorageExhausted as error:
            log.warning("no room for a snapshot of the metadata, the log goes on growing: %s", error)
        except KafkaStorageError as error:
            self._failure = str(error)
            log.error("no snapshot of the metadata could be written; no change is accepted any more: %s", error)
        self._snapshot_ms, self._bytes_since = self._now_ms(), 0

    def close(self, *, is_clean: bool = True) -> None:
        """Stop; closing again does nothing. Without `is_clean` nothing is written any more."""
        self._closed = True
        if self._quorum is None:
            return
        quorum, self._quorum = self._quorum, None
        try:
            quorum.close(is_clean=is_clean and self._failure is None)
        except KafkaStorageError as error:
            log.warning("the metadata log is not closed in order, and will be read to its end: %s", error)
