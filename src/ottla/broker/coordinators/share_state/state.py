"""How far one share group is in one partition, as the share coordinator keeps it.

1. A value: an update makes another one. `merge` puts newer batches over older ones, cuts off what is before the start
   offset, and puts equal neighbours together, so what is kept is as small as it can be.
2. Whoever writes last is right: writes of one share partition come in order from its one leader, and an earlier leader
   is fenced by its epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.light_dataclasses import dataclass, replace
from ottla.light_tuples import NamedTuple
from ottla.values import uuid_to_text

NOT_SET = -1


class ShareKey(NamedTuple):
    group_id: str
    topic_id: bytes
    partition: int

    @property
    def name(self) -> str:
        """By which the partition of __share_group_state is found, as Kafka spells it."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"


class Batch(NamedTuple):
    first: int
    last: int
    state: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class ShareState:
    state_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int = NOT_SET
    batches: tuple[Batch, ...] = ()
    snapshot_epoch: int = 0
    create_ms: int = 0
    write_ms: int = 0
    update_count: int = 0  # since the snapshot
    snapshot_at: int = NOT_SET  # the offset of the snapshot in the log


def with_update(
    state: ShareState, *, leader_epoch: int, start_offset: int, complete_count: int, batches: Iterable[Batch]
) -> ShareState:
    """The state after a write; a start offset or a leader epoch of -1 leaves what was."""
    start = state.start_offset if start_offset == NOT_SET else start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if leader_epoch == NOT_SET else leader_epoch,
        start_offset=start,
        complete_count=complete_count,
        batches=merge(state.batches, batches, start),
        update_count=state.update_count + 1,
    )


def merge(older: Iterable[Batch], newer: Iterable[Batch], start: int) -> tuple[Batch, ...]:
    """The newer batches over the older ones, from `start` on. The newer ones must not overlap each other."""
    over = sorted(newer)
    found = [part for each in older for part in _outside(each, over)]
    joined: list[Batch] = []
    for each in sorted([*found, *over]):
        if each.last < start:
            continue
        each = each._replace(first=max(each.first, start))
        if joined and joined[-1].last + 1 == each.first and joined[-1][2:] == each[2:]:
            joined[-1] = joined[-1]._replace(last=each.last)
        else:
            joined.append(each)
    return tuple(joined)


def _outside(batch: Batch, over: list[Batch]) -> Iterable[Batch]:
    """What is left of a batch where the others do not lie."""
    first = batch.first
    for each in over:
        if each.last < first:
            continue
        if each.first > batch.last:
            break
        if each.first > first:
            yield batch._replace(first=first, last=each.first - 1)
        first = each.last + 1
    if first <= batch.last:
        yield batch._replace(first=first)
