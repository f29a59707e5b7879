"""The half of Raft that a broker needs: it follows the leader of the metadata log without a vote.

    observer = Observer(files, log, identity, bootstrap)
    question = observer.next_question(now_ms)             # whom to ask what; None: wait until observer.wake_ms
    observer.answered(question, response, now_ms)         # or observer.unanswered(question, now_ms)
    for batch in observer.committed(loader.end_offset): loader.add(batch)

No sockets and no clock: a driver sends what it says, one question at a time, and tells it what came back.

1. The log is pulled: Fetch is question, heartbeat and acknowledgement in one. What comes may be uncommitted; only what
   is below the high watermark is given out, and what was given out is never taken back.
2. An epoch only grows. A new one, or its leader, is in quorum-state before the next question. The first answer to a new
   node is FENCED_LEADER_EPOCH with the leader's address: that is how it finds it.
3. Where logs differ the leader says so in its answer, and the end is cut off; below the high watermark that is
   CommittedRecordsLost. What the leader no longer has in its log comes as a snapshot, in pieces.
4. Without a good answer for `fetch_timeout_ms` the leader counts as gone, and the bootstrap servers are asked in turn.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from ottla.cluster.metadata_log.batches import MetadataBatch
from ottla.cluster.raft.log import METADATA_PARTITION, MetadataLog
from ottla.cluster.raft.quorum_state import NOBODY, QuorumState, read_quorum_state, write_quorum_state
from ottla.cluster.raft.snapshots import DamagedSnapshot, FetchedSnapshot, SnapshotId, read_snapshot
from ottla.cluster.raft.voters import VoterHistory
from ottla.errors import CorruptMessage, InconsistentClusterId, OffsetOutOfRange
from ottla.light_dataclasses import dataclass
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages import fetch, fetch_snapshot
from ottla.storage.files import Files
from ottla.values import METADATA_TOPIC_UUID, Address

logger = logging.getLogger(__name__)

INCONSISTENT_CLUSTER_ID: Final = InconsistentClusterId.code
NOT_THE_LEADER: Final = (6, 8)
"""NOT_LEADER_OR_FOLLOWER and BROKER_NOT_AVAILABLE: it does not lead, or not any more."""
SNAPSHOT_GONE: Final = (98, 99)
"""SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE: the leader has a newer one."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks."""

    cluster_id: str
    node_id: int
    directory_id: bytes


@dataclass(frozen=True, slots=True)
class Patience:
    """What controller.quorum.* say about time, and about how much is asked for at once."""

    fetch_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20


Request: TypeAlias = fetch.FetchRequest | fetch_snapshot.FetchSnapshotRequest
Response: TypeAlias = fetch.FetchResponse | fetch_snapshot.FetchSnapshotResponse


class Question(NamedTuple):
    """A request, and where it goes; an answer that comes in another epoch is passed over."""

    address: Address
    epoch: int
    request: Request


class Observer:
    """See above."""

    def __init__(
        self,
        files: Files,
        log: MetadataLog,
        identity: Identity,
        bootstrap: Sequence[Address],
        patience: Patience,
        now_ms: int,
    ) -> None:
        self.log = log
        self.state = read_quorum_state(files, log.directory) or QuorumState()
        self.voters = VoterHistory()
        self.wake_ms = now_ms
        self.leader_high_watermark: int | None = None
        """The last one that a leader told; None before the first."""
        self._files = files
        self._identity = identity
        self._bootstrap = list(bootstrap)
        self._patience = patience
        self._leader: Address | None = None
        self._good_ms = now_ms
        self._has_fetched = False
        self._asked: Question | None = None
        self._fetched: tuple[SnapshotId, FetchedSnapshot] | None = None
        self._read_voters()

    def _read_voters(self) -> None:
        newest = self.log.newest_snapshot
        if newest is not None:
            self.voters.begin(read_snapshot(self._files, self.log.snapshot_path(newest)))
        for batch in self.log.batches(self.log.start_offset, self.log.end_offset):
            self.voters.add(batch)

    @property
    def leader(self) -> Address | None:
        """Where the leader of the log is, who is the active controller, too; None while nobody is known."""
        return self._leader

    # --- asking -------------------------------------------------------------------------------------------------------

    def next_question(self, now_ms: int) -> Question | None:
        """Whom to ask what; None while something is asked, or before `wake_ms`."""
        if self._asked is not None or now_ms < self.wake_ms:
            return None
        if self._leader is not None and now_ms - self._good_ms > self._patience.fetch_timeout_ms:
            self._forget_leader(now_ms)
        address = self._leader or self._bootstrap[0]
        request: Request = self._fetch() if self._fetched is None else self._fetch_snapshot(*self._fetched)
        self._asked = Question(address, self.state.leader_epoch, request)
        return self._asked

    def _forget_leader(self, now_ms: int) -> None:
        self._leader, self._good_ms = None, now_ms
        self._drop_snapshot()

    def _try_another(self, now_ms: int) -> None:
        """The next of the bootstrap servers, a moment later."""
        if self._leader is None:
            self._bootstrap.append(self._bootstrap.pop(0))
        self.wake_ms = now_ms + self._patience.retry_backoff_ms

    def _fetch(self) -> fetch.FetchRequest:
        high_watermark = self.log.high_watermark
        partition = fetch.FetchPartition(
            partition=METADATA_PARTITION.partition,
            current_leader_epoch=self.state.leader_epoch,
            fetch_offset=self.log.end_offset,
            last_fetched_epoch=self.log.last_epoch,
            partition_max_bytes=0,
            replica_directory_id=self._identity.directory_id,
            high_watermark=high_watermark if self._has_fetched else -1,
        )
        return fetch.FetchRequest(
            cluster_id=self._identity.cluster_id,
            replica_state=fetch.ReplicaState(replica_id=self._identity.node_id),
            max_wait_ms=self._patience.max_wait_ms,
            min_bytes=0,
            max_bytes=self._patience.fetch_max_bytes,
            topics=[fetch.FetchTopic(topic_id=METADATA_TOPIC_UUID, partitions=[partition])],
        )

    def _fetch_snapshot(self, wanted: SnapshotId, fetched: FetchedSnapshot) -> fetch_snapshot.FetchSnapshotRequest:
        partition = fetch_snapshot.PartitionSnapshot(
            partition=METADATA_PARTITION.partition,
            current_leader_epoch=self.state.leader_epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            position=fetched.position,
            replica_directory_id=self._identity.directory_id,
        )
        return fetch_snapshot.FetchSnapshotRequest(
            cluster_id=self._identity.cluster_id,
            replica_id=self._identity.node_id,
            max_bytes=self._patience.snapshot_max_bytes,
            topics=[fetch_snapshot.TopicSnapshot(name=METADATA_PARTITION.topic, partitions=[partition])],
        )

    # --- answers ------------------------------------------------------------------------------------------------------

    def unanswered(self, question: Question, now_ms: int) -> None:
        """The connection could not be made, or broke, or nothing came in time."""
        if self._is_asked(question):
            self._try_another(now_ms)

    def answered(self, question: Question, response: Response, now_ms: int) -> None:
        """Take an answer in. Raises what must stop the node; everything else is asked again."""
        if not self._is_asked(question):
            return
        if response.error_code == INCONSISTENT_CLUSTER_ID and not self._has_fetched:
            raise InconsistentClusterId(
                f"{question.address} is a controller of another cluster than {self._identity.cluster_id}"
            )
        if isinstance(response, fetch.FetchResponse):
            self._fetch_answered(response, now_ms)
        else:
            self._snapshot_answered(response, now_ms)

    def _is_asked(self, question: Question) -> bool:
        """Whether it is the one that is open; it is not any more then."""
        if question is not self._asked:
            return False
        self._asked = None
        return True

    def _fetch_answered(self, response: fetch.FetchResponse, now_ms: int) -> None:
        partition = response.responses[0].partitions[0] if response.responses else None
        if partition is None:
            self._try_another(now_ms)
            return
        leader = partition.current_leader
        is_known = self._heard_of(leader.leader_id, leader.leader_epoch, response.node_endpoints, now_ms)
        if partition.error_code in NOT_THE_LEADER and leader.leader_id == NOBODY:
            self._forget_leader(now_ms)
        if partition.error_code or not is_known:
            self._try_another(now_ms)
            return
        self._good_ms, self._has_fetched = now_ms, True
        if partition.diverging_epoch.epoch >= 0:
            self._cut(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset, now_ms)
        elif partition.snapshot_id.epoch >= 0:
            self._begin_snapshot(SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch), now_ms)
        else:
            self._append(bytes(partition.records or b""), partition.high_watermark, now_ms)

    def _heard_of(
        self,
        leader_id: int,
        epoch: int,
        endpoints: Sequence[fetch.NodeEndpoint | fetch_snapshot.NodeEndpoint],
        now_ms: int,
    ) -> bool:
        """What an answer says about the leader; whether the answer is of our epoch, and not of an earlier or later."""
        known = self.state.leader_epoch
        if epoch > known or (epoch == known and self.state.leader_id == NOBODY != leader_id):
            self.state = QuorumState(leader_epoch=epoch, leader_id=leader_id)
            write_quorum_state(self._files, self.log.directory, self.state, self.voters.newest.kraft_version)
            self._forget_leader(now_ms)
        node = next((node for node in endpoints if node.node_id == leader_id), None)
        if node is not None and (epoch, leader_id) == (self.state.leader_epoch, self.state.leader_id):
            self._leader = Address(node.host, node.port)
        return epoch in (known, NOBODY)

    def _append(self, records: bytes, high_watermark: int, now_ms: int) -> None:
        before = self.log.end_offset
        try:
            self.log.append(records, epoch=self.state.leader_epoch, now_ms=now_ms)
        except (CorruptMessage, OffsetOutOfRange) as problem:
            logger.warning("what the leader of the metadata log sent is not taken, and asked for again: %s", problem)
            self._try_another(now_ms)
            return
        for batch in self.log.batches(before, self.log.end_offset):
            self.voters.add(batch)
        self.log.update_high_watermark(high_watermark)
        if high_watermark >= 0:
            self.leader_high_watermark = high_watermark

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

    def _begin_snapshot(self, wanted: SnapshotId, now_ms: int) -> None:
        self._drop_snapshot()
        self._fetched = wanted, FetchedSnapshot(self._files, self.log.snapshot_path(wanted))

    def _drop_snapshot(self) -> None:
        if self._fetched is not None:
            self._fetched[1].drop()
            self._fetched = None

    def _snapshot_answered(self, response: fetch_snapshot.FetchSnapshotResponse, now_ms: int) -> None:
        partition = response.topics[0].partitions[0] if response.topics else None
        if partition is None or self._fetched is None:
            self._try_another(now_ms)
            return
        leader = partition.current_leader
        is_ours = self._heard_of(leader.leader_id, leader.leader_epoch, response.node_endpoints, now_ms)
        if partition.error_code in SNAPSHOT_GONE:
            self._drop_snapshot()
        if partition.error_code or not is_ours or self._fetched is None:
            self._try_another(now_ms)
            return
        self._good_ms = now_ms
        wanted, fetched = self._fetched
        if partition.position != fetched.position:
            self._drop_snapshot()
            return
        fetched.add(partition.unaligned_records)
        if fetched.position >= partition.size:
            self._finish_snapshot(wanted, fetched, now_ms)

    def _finish_snapshot(self, wanted: SnapshotId, fetched: FetchedSnapshot, now_ms: int) -> None:
        self._fetched = None
        try:
            for _ in fetched.finish():
                pass
        except DamagedSnapshot:
            fetched.drop()
            self._try_another(now_ms)
            return
        self.log.add_snapshot(wanted)
        self.log.truncate_to_newest_snapshot(now_ms)
        self.voters.begin(read_snapshot(self._files, self.log.snapshot_path(wanted)))

    # --- what is committed --------------------------------------------------------------------------------------------

    def committed(self, offset: int) -> Iterator[MetadataBatch]:
        """The committed batches from an offset on; one that was cut into by a snapshot is read from that instead."""
        yield from self.log.batches(offset, self.log.high_watermark)
