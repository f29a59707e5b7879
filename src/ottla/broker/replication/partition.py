"""One partition as this broker has it: its log, who leads it, and how far it is committed.

1. Only the leader appends and serves consumers; anybody else raises NotLeaderOrFollower, and a request that names an
   older or newer leader epoch raises FencedLeaderEpoch or UnknownLeaderEpoch.
2. The high watermark is the smallest of: the log ends of the in-sync replicas, and, where durability is `durable`, what
   this broker has synced to disk. So a consumer never reads what one crash could take away again. It stays where it is
   while fewer than min.insync.replicas are in sync.
3. Nothing here waits: `append` says which offset must be committed, `advance` says whether the high watermark moved.
4. A follower takes what its leader has: records, how far they are committed, where the log starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ottla.broker.replication.in_sync import InSync, Proposal
from ottla.broker.replication.writes import Appended, Write, append_all
from ottla.cluster import model
from ottla.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from ottla.light_dataclasses import replace
from ottla.records import RecordBatch
from ottla.records.checks import PlacedBatch, RecordsCheck
from ottla.storage.files import Buffer
from ottla.storage.log.append import AppendResult
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.read import ReadResult, UpTo
from ottla.storage.log.whole_log import Rotten, read_whole
from ottla.storage.producers.check import VerificationGuard
from ottla.storage.settings import TopicSettings
from ottla.values import TopicPartition

NO_EPOCH = -1
ACKS_ALL = -1


class Partition:
    some_check_schemas: ClassVar[bool] = False
    """Whether a partition of this process ever wanted schemas (registry/validation.py): nobody else is asked."""

    def __init__(self, name: TopicPartition, topic_id: bytes, log: PartitionLog, *, broker_id: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.end = log.end  # the parts of the log that every request needs, without the way through it
        self._appender, self._reader = log.appender, log.reader
        self.offline: KafkaStorageError | None = None
        self.queued: list[Write] = []
        """What clients want appended next; see writes.py."""
        self._appended: list[Appended] = []  # of the queue, because somebody else appended behind it
        self._broker_id = broker_id
        self._state: model.Partition | None = None
        # What the state says, spelled out: every append and every read asks for it.
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.in_sync: InSync | None = None  # what a leader knows of its followers, if it has any
        self.in_sync_count = 0
        self.min_in_sync_count = 1
        self.is_durable = True  # whether what is acknowledged must be on this disk first
        self.flush_messages = log.settings.flush_messages

    def replace_log(self, log: PartitionLog) -> None:
        """The log lies in another directory now; it has all that the one before had."""
        log.producers.take_verifications(self.log.producers)
        self.log = log
        self.end = log.end
        self._appender, self._reader = log.appender, log.reader
        if self.is_leader:
            log.begin_epoch(self.leader_epoch)

    # -- leadership ----------------------------------------------------------------------------------------------------

    def update_state(self, state: model.Partition, *, now_ms: float = 0) -> bool:
        """The cluster's newest word about this partition; True when this broker became its leader by it. It is not the
        newest when the controller has answered a proposal of ours, and the image is still on its way to that."""
        known = self._state
        if known is not None and known.leader_epoch == state.leader_epoch:
            state = known if known.partition_epoch > state.partition_epoch else state
        before = self.leader_epoch if self.is_leader else None
        self._set_state(state)
        if self.is_leader:
            # So that a follower's question about this epoch has an answer before the first record is written in it.
            self.log.begin_epoch(state.leader_epoch)
        if not self.is_leader or len(state.replicas) == 1:
            self.in_sync = None
        elif before != state.leader_epoch or self.in_sync is None:
            self.in_sync = self._new_in_sync(state, now_ms)
        else:
            self.in_sync.update_replicas(state.replicas)
            self.in_sync.update(state.isr, state.leader_epoch, state.partition_epoch)
        self.advance()
        return self.is_leader and before is None

    def _new_in_sync(self, state: model.Partition, now_ms: float) -> InSync:
        return InSync(
            self._broker_id,
            state.replicas,
            state.isr,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            epoch_start_offset=self.log.log_end_offset,
            now_ms=now_ms,
        )

    def update_isr(self, proposal: Proposal, isr: Sequence[int], leader_epoch: int, partition_epoch: int) -> bool:
        """The controller answered a proposal; True when that changed who is in sync."""
        if self.in_sync is None or self.in_sync.proposal is not proposal or self._state is None:
            return False
        if not self.in_sync.update(isr, leader_epoch, partition_epoch):
            return False
        self.in_sync.withdraw()
        self._state = replace(self._state, isr=tuple(isr), partition_epoch=partition_epoch)
        self.in_sync_count = len(isr)
        return True

    def update_settings(self, settings: TopicSettings) -> bool:
        """The topic's settings changed; what the cluster says of the partition stays. True when more is committed."""
        self.log.settings = settings
        self._set_state(self._state)
        return self.advance()

    def retire(self) -> None:
        """The partition is gone from this broker; who still waits on it finds no leader."""
        self.in_sync = None
        self._set_state(None)

    def _set_state(self, state: model.Partition | None) -> None:
        self._state = state
        self.is_leader = state is not None and state.leader == self._broker_id
        self.leader_epoch = state.leader_epoch if state is not None else NO_EPOCH
        self.in_sync_count = len(state.isr) if state is not None else 0
        settings = self.log.settings  # whoever changes the settings sets the state again
        self.checks_schemas = settings.confluent_value_schema_validation or settings.confluent_key_schema_validation
        if self.checks_schemas:
            Partition.some_check_schemas = True
        # A topic with fewer replicas than that is served as long as all of them are in sync.
        self.min_in_sync_count = min(settings.min_insync_replicas, len(state.replicas) if state is not None else 1)
        wish = settings.ottla_durability
        is_alone = state is None or len(state.replicas) == 1
        self.is_durable = is_alone if wish == "auto" else wish == "durable"
        self.flush_messages = settings.flush_messages

    @property
    def leader_id(self) -> int:
        return self._state.leader if self._state is not None else model.NO_LEADER

    @property
    def state(self) -> model.Partition | None:
        """What the controller said of this partition last."""
        return self._state

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        if self.offline is not None:
            raise self.offline
        if not self.is_leader:
            raise NotLeaderOrFollower(f"{self.name} is led by broker {self.leader_id}")
        self._check_epoch(current_leader_epoch)

    def check_replica(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """The same for those who may also ask a follower."""
        if self.offline is not None:
            raise self.offline
        if self._state is None:
            raise NotLeaderOrFollower(f"{self.name} is not on this broker any more")
        self._check_epoch(current_leader_epoch)

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch == NO_EPOCH:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"{self.name} is in epoch {self.leader_epoch}, not {current_leader_epoch}")
        if current_leader_epoch > self.leader_epoch:
            raise UnknownLeaderEpoch(f"{self.name} is in epoch {self.leader_epoch}, not {current_leader_epoch} yet")

    # -- appending ---------------------------------------------------------------------------------------------------

    def append_queued(self, now_ms: int) -> list[Appended]:
        """Append what is queued; returns it, with what was already."""
        if self.queued:
            writes, self.queued = self.queued, []
            self._appended.append(append_all(self, writes, now_ms))
        appended, self._appended = self._appended, []
        return appended

    def append(
        self,
        buffer: bytearray | memoryview,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int | None = None,
    ) -> AppendResult:
        """Behind what is queued."""
        if self.queued:
            self._appended = self.append_queued(now_ms)
        return self.append_batch(
            buffer, acks=acks, now_ms=now_ms, origin=origin, guard=guard, transaction_version=transaction_version
        )

    def append_batch(
        self,
        buffer: bytearray | memoryview,
        *,
        acks: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        zstd_allowed: bool = True,
        guard: VerificationGuard | None = None,
        transaction_version: int | None = None,
        checked: RecordsCheck | None = None,
    ) -> AppendResult:
        if self.offline is not None or not self.is_leader:
            self.check_leader()
        if acks == ACKS_ALL and self.in_sync_count < self.min_in_sync_count:
            raise NotEnoughReplicas(
                f"{self.name} has {self.in_sync_count} in sync, min.insync.replicas is {self.min_in_sync_count}"
            )
        result = self._appender.append_as_leader(
            buffer,
            leader_epoch=self.leader_epoch,
            origin=origin,
            now_ms=now_ms,
            zstd_allowed=zstd_allowed,
            guard=guard,
            transaction_version=transaction_version,
            checked=checked,
        )
        self.advance()
        return result

    def append_run(self, buffers: Sequence[memoryview], *, acks: int, now_ms: int) -> list[PlacedBatch] | None:
        """Append batches of clients that came together, by one write; None when they must go one by one."""
        if self.offline is not None or not self.is_leader:
            return None
        if acks == ACKS_ALL and self.in_sync_count < self.min_in_sync_count:
            return None
        batches = self._appender.append_run(buffers, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if batches is not None:
            self.advance()
        return batches

    def commits_later(self, acks: int) -> bool:
        """Whether what is appended now with these acks is waited for."""
        if self.in_sync is None:
            return self.is_durable
        return acks == ACKS_ALL

    def advance(self) -> bool:
        """Recompute the high watermark; True when it moved."""
        if not self.is_leader:
            return False
        end = self.end
        committed = end.log_end_offset
        if self.in_sync is not None:
            if self.in_sync_count < self.min_in_sync_count:
                return False
            if self.in_sync.bound < committed:
                committed = self.in_sync.bound
        if self.is_durable and end.flushed_offset < committed:
            committed = end.flushed_offset
        if committed <= end.high_watermark:
            return False
        end.update_high_watermark(committed)
        return True

    @property
    def needs_flush(self) -> bool:
        """Whether what was appended must be on the disk before it is acknowledged: by durability or flush.messages."""
        unflushed = self.end.log_end_offset - self.end.flushed_offset
        return unflushed > 0 if self.is_durable else unflushed >= self.flush_messages

    # -- following ---------------------------------------------------------------------------------------------------

    def append_as_follower(self, records: Buffer, *, leader_epoch: int, now_ms: int) -> AppendResult | None:
        """Append what the leader of this epoch sent; None when there is no whole batch in it."""
        if self.offline is not None:
            raise self.offline
        if self.is_leader:
            raise FencedLeaderEpoch(f"{self.name} is led from here and follows nobody")
        return self._appender.append_as_follower(records, leader_epoch=leader_epoch, now_ms=now_ms)

    def update_leader_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """What the leader says is committed and where its log starts; True when our high watermark moved.

        It never goes back: a new leader learns late what the old one had announced."""
        end = self.end
        moved = min(high_watermark, end.log_end_offset) > end.high_watermark
        if moved:
            end.update_high_watermark(high_watermark)
        if log_start_offset > end.log_start_offset:
            self.log.advance_log_start(min(log_start_offset, end.high_watermark))
        return moved

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        read_committed: bool = False,
        at_least_one_batch: bool,
        is_follower: bool = False,
    ) -> ReadResult:
        up_to: UpTo = "log_end" if is_follower else "last_stable" if read_committed else "high_watermark"
        return self._reader.read(offset, max_bytes, up_to=up_to, at_least_one_batch=at_least_one_batch)

    @property
    def high_watermark(self) -> int:
        return self.end.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self.end.log_end_offset

    def read_batches(self) -> Iterator[RecordBatch | Rotten]:
        """Every batch of the log, for a coordinator that is being loaded, and what cannot be read."""
        return read_whole(lambda: self.log)
