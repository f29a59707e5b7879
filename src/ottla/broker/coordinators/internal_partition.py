"""The partition that keeps the records of a coordinator shard: an append there must also be flushed and noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.broker.replication.partition import ACKS_ALL, Partition
from ottla.records import RecordBatch
from ottla.storage.log.origin import AppendOrigin
from ottla.storage.log.whole_log import Rotten
from ottla.storage.producers.check import VerificationGuard


class CoordinatorPartition:
    """runtime.InternalPartition over a partition; `appended` notifies the broker."""

    def __init__(self, partition: Partition, appended: Callable[[Partition], None]) -> None:
        self._partition = partition
        self._appended = appended

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    def append_internal(self, batch: bytearray, now_ms: int, guard: VerificationGuard | None) -> int:
        result = self._partition.append(
            batch, acks=ACKS_ALL, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, guard=guard
        )
        self._appended(self._partition)
        return result.next_offset

    def read_batches(self) -> Iterator[RecordBatch | Rotten]:
        return self._partition.read_batches()
