"""What is lost when the cluster no longer has what a query wants to read, and where it goes on if it may.

    what happened                                   known by                              goes on at
    TOPIC_GONE       the topic was deleted          no broker knows its name              nothing of it is read
    TOPIC_RECREATED  deleted and made again         its id is another                     the new one's first record
    PARTITION_GONE   the partition is not there     the topic has no such partition       nothing of it is read
    CUT_OFF          retention, DeleteRecords       it begins after our position          the first record there is
    TRUNCATED        an unclean leader election     it ends before our position           its end
    BEGAN_LATE       a partition came and lost      it is new and does not begin with 0   the first record there is
                     records before we saw it

1. failOnDataLoss=true (the default) raises DataLost, which names every partition with its offsets and says what to
   do. false writes one warning for each loss and goes on exactly there.
2. A new partition begins with its first record, wherever the query began, because it is later than the query.
3. What read_committed does not show yet is not lost: a position is truncated only if it is beyond the end of the log.
4. After TRUNCATED, records that were written since under lower offsets may be missed: nobody can tell them apart.
5. A topic that is gone and comes back is new (2).
Decided here, from what was seen; asked in topic_positions.py. A task that finds records gone while it reads
(range_reading.py) follows the same table.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ottla.client.consumer.ranges import DataLost
from ottla.light_dataclasses import dataclass, field
from ottla.spark.source.offsets import StreamOffset
from ottla.values import TopicPartition

log = logging.getLogger(__name__)

NAMED_LIMIT: Final = 5


class Kind(enum.Enum):
    """What happened, in words."""

    TOPIC_GONE = "its topic was deleted"
    TOPIC_RECREATED = "its topic was deleted and made again"
    PARTITION_GONE = "the topic has no such partition any more"
    CUT_OFF = "records before its first one were deleted by retention or DeleteRecords"
    TRUNCATED = "it ends before that; a leader that was not in sync was elected, or the offset was never there"
    BEGAN_LATE = "it is new, but its first records are deleted already"


@dataclass(frozen=True, slots=True)
class Loss:
    """One partition of which something is gone."""

    kind: Kind
    partition: TopicPartition
    wanted: int
    """The offset that had to be read next."""
    continues_at: int | None
    """Where reading goes on if it may; None when there is nothing to read."""

    def __str__(self) -> str:
        where = (
            "there is nothing to go on with"
            if self.continues_at is None
            else f"it can go on at offset {self.continues_at}"
        )
        return f"{self.partition} at offset {self.wanted}: {self.kind.value}; {where}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the cluster has now. `firsts` and `ends` are asked only for partitions where they matter."""

    topic_ids: Mapping[str, str | None] | Mapping[str, str]
    partitions: frozenset[TopicPartition]
    firsts: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The first offset there is."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of the log, whatever the isolation level."""

    def is_another(self, topic: str, known_ids: Mapping[str, str]) -> bool:
        """Whether the topic was made again since its id was written down."""
        known, now = known_ids.get(topic), self.topic_ids.get(topic)
        return known is not None and now is not None and known != now


def resolve_start(start: StreamOffset, seen: Seen) -> tuple[dict[TopicPartition, int], list[Loss]]:
    """Where each partition is to be read from, and what is lost before that."""
    losses = list(_losses(start, seen))
    begins = {each: offset for each, offset in start.positions.items() if each in seen.partitions}
    begins |= {each: seen.firsts[each] for each in seen.partitions if each not in start.positions}
    for loss in losses:
        if loss.continues_at is None:
            begins.pop(loss.partition, None)
        else:
            begins[loss.partition] = loss.continues_at
    return begins, losses


def _losses(start: StreamOffset, seen: Seen) -> Iterator[Loss]:
    for partition, wanted in sorted(start.positions.items()):
        if (found := _loss(partition, wanted, start, seen)) is not None:
            yield found
    for partition in sorted(seen.partitions - start.positions.keys()):
        if seen.firsts[partition] > 0:
            yield Loss(Kind.BEGAN_LATE, partition, 0, seen.firsts[partition])


def _loss(partition: TopicPartition, wanted: int, start: StreamOffset, seen: Seen) -> Loss | None:
    if partition.topic not in seen.topic_ids:
        return Loss(Kind.TOPIC_GONE, partition, wanted, None)
    if partition not in seen.partitions:
        return Loss(Kind.PARTITION_GONE, partition, wanted, None)
    first, end = seen.firsts.get(partition), seen.ends.get(partition)
    if seen.is_another(partition.topic, start.topic_ids):
        return Loss(Kind.TOPIC_RECREATED, partition, wanted, first)
    if first is not None and wanted < first:
        return Loss(Kind.CUT_OFF, partition, wanted, first)
    if end is not None and wanted > end:
        return Loss(Kind.TRUNCATED, partition, wanted, end)
    return None


def report_losses(losses: Sequence[Loss], *, fails: bool) -> None:
    """Raise what is lost, or warn of it once."""
    if losses and fails:
        raise DataLost(_named(losses))
    for loss in losses:
        log.warning("records are lost and failOnDataLoss=false: %s", loss)


def _named(losses: Iterable[Loss]) -> str:
    texts = [str(each) for each in losses]
    more = [f"and {len(texts) - NAMED_LIMIT} more partitions"] if len(texts) > NAMED_LIMIT else []
    return ". ".join([*texts[:NAMED_LIMIT], *more])
