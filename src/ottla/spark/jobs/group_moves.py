"""Consumer groups of the source, moved to the mirror: where they would go on there.

1. What a group has committed at the source is translated by the offset map and committed at the target.
2. A group is never moved back: where it has committed at the target already, and further, that stays. So a group that
   works at the target since a failover is left alone, even if it has no member at the moment.
3. A group that has members at the target is not moved; the row says why. Nothing of this stops a mirror.
4. What is not mirrored yet is not counted as read: a group that is further than the mirror goes on at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ottla.errors import OttlaError
from ottla.light_dataclasses import dataclass
from ottla.spark.jobs.mirror_rows import MAP_PARTITION
from ottla.spark.jobs.offset_map import OffsetMap, read_segment
from ottla.values import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

READ_LIMIT_S: Final = 60.0
POLL_S: Final = 0.5


class MapUnreadable(OttlaError):
    """The topic of mapped offsets could not be read to its end in time. Is the target cluster reachable?"""


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One partition of one group. `target` is None where nothing was mirrored."""

    group: str
    partition: TopicPartition
    source: int
    target: int | None
    result: str

    def as_json(self) -> dict[str, Any]:
        plain = asdict(self) | {"topic": self.partition.topic, "partition": self.partition.partition}
        return {name: plain[name] for name in ("group", "topic", "partition", "source", "target", "result")}


def plan_moves(
    group: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata | None],
    at_target: Mapping[TopicPartition, OffsetAndMetadata | None],
    offsets: OffsetMap,
    prefix: str,
) -> list[GroupMove]:
    """What is to be done for a group: rows with the result "moved" are to be committed."""
    moves = []
    for partition, position in sorted(committed.items()):
        if position is None:
            continue
        target = offsets.translate(partition, position.offset)
        there = at_target.get(TopicPartition(prefix + partition.topic, partition.partition))
        moves.append(GroupMove(group, partition, position.offset, target, _result(target, there)))
    return moves


def _result(target: int | None, there: OffsetAndMetadata | None) -> str:
    if target is None:
        return "not mirrored"
    if there is not None and there.offset >= target:
        return "already there" if there.offset == target else f"is further: {there.offset}"
    return "moved"


def commits_of(
    moves: Iterable[GroupMove], committed: Mapping[TopicPartition, OffsetAndMetadata | None], prefix: str
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What is to be committed at the target. Epochs are left out: they are those of another cluster's leaders."""
    made = {}
    for move in moves:
        position = committed[move.partition]
        if move.result == "moved" and move.target is not None and position is not None:
            place = TopicPartition(prefix + move.partition.topic, move.partition.partition)
            made[place] = OffsetAndMetadata(move.target, position.metadata)
    return made


class GroupMover:
    """Moves groups again and again, reading only what is new of the map."""

    def __init__(
        self, source: Admin, target: Admin, *, cluster_id: str, prefix: str, map_topic: str, make_consumer: Any
    ) -> None:
        self._source = source
        self._target = target
        self._cluster_id = cluster_id
        self._prefix = prefix
        self._map = TopicPartition(map_topic, MAP_PARTITION)
        self._make_consumer = make_consumer
        self._consumer: Any = None
        self._offsets = OffsetMap()

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def move(self, groups: Iterable[str], topics: Callable[[str], bool]) -> list[GroupMove]:
        """Move these groups as far as the mirror is now."""
        self._catch_up()
        return [move for group in groups for move in self._move_one(group, topics)]

    def _move_one(self, group: str, topics: Callable[[str], bool]) -> list[GroupMove]:
        committed = {
            partition: position
            for partition, position in self._source.list_consumer_group_offsets(group).items()
            if topics(partition.topic)
        }
        there = self._target.list_consumer_group_offsets(group)
        moves = plan_moves(group, committed, there, self._offsets, self._prefix)
        wanted = commits_of(moves, committed, self._prefix)
        try:
            if wanted:
                self._target.alter_consumer_group_offsets(group, wanted)
        except OttlaError as error:
            refused = f"refused: {error}"
            return [_refused(move, refused) if move.result == "moved" else move for move in moves]
        return moves

    def _catch_up(self) -> None:
        from ottla.client.admin.offsets import OffsetSpec

        if self._consumer is None:
            self._consumer = self._make_consumer()
            self._consumer.assign([self._map])
            self._consumer.seek_to_beginning(self._map)
        found = self._target.list_offsets({self._map: OffsetSpec.LATEST}, isolation_level="read_committed")
        end, deadline = found[self._map].offset, time.monotonic() + READ_LIMIT_S
        while self._consumer.position(self._map) < end:
            if time.monotonic() > deadline:
                raise MapUnreadable(f"{self._map} at {self._consumer.position(self._map)} of {end}")
            for record in self._consumer.poll(POLL_S):
                self._add(record)

    def _add(self, record: Any) -> None:
        if record.value is None:
            return
        cluster_id, partition, segment = read_segment(record.key, record.value)
        if cluster_id == self._cluster_id:
            self._offsets.add(partition, segment)


def _refused(move: GroupMove, result: str) -> GroupMove:
    return GroupMove(move.group, move.partition, move.source, move.target, result)
