"""kafka-replica-verification's verdicts: batches of all replicas of a partition, compared one by one.

    rounds = ReplicaRounds({partition: 3}, {partition: 0}, interval_ms=30_000, now_ms=0)
    rounds.compare({partition: {1: part, 2: part, 3: part}})    # what is different, as sentences
    rounds.report(now_ms)                                       # "max lag is 0 for partition ..." when it is time

1. Batch by batch, each replica's at the same place: another last offset ends everything (OffsetsDiffer), another
   checksum is told and it goes on.
2. Only below the high watermark of the replica that sent it, and only as far as every replica sent something: a replica
   that sent nothing holds its partition back.
3. Whoever wants time or bytes brings them: nothing here reads a clock or a socket.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ottla.cli.kafka.java_maps import partition_order
from ottla.errors import CorruptMessage
from ottla.light_tuples import NamedTuple
from ottla.records import RecordBatch, RecordStream

if TYPE_CHECKING:
    from ottla.client.admin.copies import CopyPart
    from ottla.values import TopicPartition

NOTHING: Final = -1


class OffsetsDiffer(Exception):
    """Two replicas have batches that end at different offsets in the same place."""


class _Batch(NamedTuple):
    replica: int
    last_offset: int
    next_offset: int
    checksum: int


class ReplicaRounds:
    """How far each partition is verified, and which is furthest behind."""

    def __init__(
        self,
        replicas: Mapping[TopicPartition, int],
        offsets: Mapping[TopicPartition, int],
        interval_ms: int,
        now_ms: int,
    ) -> None:
        self.offsets = dict(offsets)
        self._replicas = replicas
        self._order = partition_order(replicas)
        self._interval_ms = interval_ms
        self._reported_ms = now_ms
        self._lag: tuple[int, TopicPartition | None, int] = (NOTHING, None, NOTHING)

    def compare(self, parts: Mapping[TopicPartition, Mapping[int, CopyPart]]) -> Iterator[str]:
        """One round: sentences about checksums that differ; raises OffsetsDiffer."""
        self._lag = (NOTHING, None, NOTHING)
        for partition in self._order:
            found = parts[partition]
            yield from self._compare_partition(partition, found)
            highest = max(each.high_watermark for each in found.values())
            offset = self.offsets[partition]
            if highest - offset > self._lag[0]:
                self._lag = (highest - offset, partition, offset)

    def _compare_partition(self, partition: TopicPartition, parts: Mapping[int, CopyPart]) -> Iterator[str]:
        if len(parts) < self._replicas[partition]:
            return
        columns = [_verifiable(replica, parts[replica]) for replica in sorted(parts)]
        for row in zip(*columns, strict=False):
            first = row[0]
            for other in row[1:]:
                if other.last_offset != first.last_offset:
                    raise OffsetsDiffer(
                        f"partition {partition}: replica {first.replica}'s offset {first.last_offset} doesn't match "
                        f"replica {other.replica}'s offset {other.last_offset}"
                    )
                if other.checksum != first.checksum:
                    yield (
                        f"partition {partition} has unmatched checksum at offset {other.last_offset}; replica "
                        f"{first.replica}'s checksum {first.checksum}; replica {other.replica}'s checksum "
                        f"{other.checksum}"
                    )
            self.offsets[partition] = first.next_offset

    def report(self, now_ms: int) -> str | None:
        """The line about the partition that is furthest behind, when the last one is an interval ago."""
        if now_ms - self._reported_ms <= self._interval_ms:
            return None
        self._reported_ms = now_ms
        lag, partition, offset = self._lag
        name = "null" if partition is None else str(partition)
        return f"max lag is {lag} for partition {name} at offset {offset} among {len(self._order)} partitions"


def _verifiable(replica: int, part: CopyPart) -> Iterator[_Batch]:
    """The whole batches below the high watermark, in their order."""
    try:
        for batch in RecordStream(part.records):
            last_offset = batch.next_offset - 1
            if last_offset >= part.high_watermark:
                return
            yield _Batch(replica, last_offset, batch.next_offset, _checksum(batch))
    except CorruptMessage as error:
        raise OffsetsDiffer(f"replica {replica} sent a damaged batch: {error}") from None


def _checksum(batch: object) -> int:
    """The batch's own; old messages (formats 0 and 1) have one each, and get one for all of them."""
    if isinstance(batch, RecordBatch):
        return batch.crc
    return zlib.crc32(repr(list(batch)).encode())  # type: ignore[call-overload]
