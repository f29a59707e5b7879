"""How far a group is behind: in records, and in seconds.

1. Lag in records is the end of the partition less the committed offset; compaction and transaction markers make it an
   upper bound, as everywhere in Kafka.
2. Lag in seconds is the age of the oldest record the group has not read: what somebody who waits for it feels. It is
   found by reading that one record, so it costs a fetch for each partition that has a lag, and is None where the
   record cannot be read (deleted meanwhile, no access, too late).
3. The rows are made without a connection from what the cluster said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.light_tuples import NamedTuple
from ottla.values import OffsetAndMetadata, TopicPartition


class LagRow(NamedTuple):
    """One partition of a group."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    lag_s: float | None
    member_id: str | None
    host: str | None
    client_id: str | None


def lag_rows(
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    ends: Mapping[TopicPartition, int],
    members: Iterable[Any],
    ages_s: Mapping[TopicPartition, float],
) -> list[LagRow]:
    """A row for each partition that was committed or is assigned, by name."""
    owners = {partition: member for member in members for partition in member.assignment}
    rows = []
    for partition in sorted({*committed, *owners}):
        offset = committed.get(partition)
        end = ends.get(partition)
        owner = owners.get(partition)
        lag = None if offset is None or end is None else max(end - offset.offset, 0)
        rows.append(
            LagRow(
                topic=partition.topic,
                partition=partition.partition,
                committed=None if offset is None else offset.offset,
                end=end,
                lag=lag,
                lag_s=0.0 if lag == 0 else ages_s.get(partition),
                member_id=None if owner is None else owner.member_id,
                host=None if owner is None else owner.host,
                client_id=None if owner is None else owner.client_id,
            )
        )
    return rows


def behind(
    committed: Mapping[TopicPartition, OffsetAndMetadata | None], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The partitions with a lag, and the first offset that was not read."""
    return {
        partition: offset.offset
        for partition, offset in committed.items()
        if offset is not None and partition in ends and offset.offset < ends[partition]
    }


def total(rows: Sequence[LagRow]) -> tuple[int, float | None]:
    """The lag of all partitions together: records added up, seconds of the worst."""
    seconds = [row.lag_s for row in rows if row.lag_s is not None]
    return sum(row.lag or 0 for row in rows), max(seconds, default=None)
