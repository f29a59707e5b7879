"""A partition of this broker as its follower sees it: where its log ends, and the three ways to change that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.broker.replication.partition import Partition
from ottla.storage.files import Buffer
from ottla.storage.log.follower_check import UnexpectedOffset
from ottla.storage.log.leader_epochs import EpochEnd
from ottla.values import TopicPartition

NO_EPOCH = -1


class Cutter(Protocol):
    """Cuts logs so that a recovery knows of it, replication.manager.ReplicaManager."""

    def truncate_to(self, partition: Partition, offset: int, now_ms: int) -> None: ...
    def truncate_fully(self, partition: Partition, offset: int, now_ms: int) -> None: ...


class ReplicaLog:
    """follower.Replica over a partition."""

    def __init__(self, partition: Partition, cutter: Cutter, now_ms: Callable[[], int]) -> None:
        self.partition = partition
        self.name: TopicPartition = partition.name  # every fetch asks for both, several times
        self.topic_id: bytes = partition.topic_id
        self._cutter = cutter
        self._now_ms = now_ms

    @property
    def log_start_offset(self) -> int:
        return self.partition.end.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.partition.end.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def latest_epoch(self) -> int:
        latest = self.partition.log.epochs.latest
        return NO_EPOCH if latest is None else latest.epoch

    def ends(self) -> tuple[int, int]:
        end = self.partition.end
        return end.log_end_offset, end.log_start_offset

    def is_following(self, leader_epoch: int) -> bool:
        return not self.partition.is_leader and self.partition.leader_epoch == leader_epoch

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return self.partition.log.end_offset_for_epoch(epoch)

    def append(self, records: Buffer, leader_epoch: int) -> bool:
        try:
            return self._append(records, leader_epoch)
        except UnexpectedOffset as error:
            # The leader's log may start inside a batch, because records were deleted; an empty log takes all of it.
            is_empty = self.log_end_offset == self.log_start_offset
            if not is_empty or not error.first_offset < self.log_end_offset <= error.last_offset + 1:
                raise
            start = self.log_start_offset
            self.restart_at(error.first_offset)
            appended = self._append(records, leader_epoch)
            self.partition.update_leader_offsets(start, start)
            return appended

    def _append(self, records: Buffer, leader_epoch: int) -> bool:
        return self.partition.append_as_follower(records, leader_epoch=leader_epoch, now_ms=self._now_ms()) is not None

    def truncate_to(self, offset: int) -> None:
        self._cutter.truncate_to(self.partition, offset, self._now_ms())

    def restart_at(self, offset: int) -> None:
        self._cutter.truncate_fully(self.partition, offset, self._now_ms())

    def update_leader_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        return self.partition.update_leader_offsets(high_watermark, log_start_offset)
