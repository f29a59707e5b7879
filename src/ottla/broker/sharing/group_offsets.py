"""Where a share group is in its partitions, seen by administrators: the group coordinator knows which partitions, the
share coordinator where they begin, the leaders of the partitions where they end.

1. Where a group begins can be set, or forgotten, only while it has no members.
2. Setting it gives the state a new epoch: a leader that has the old state in memory is refused, and reads it anew.
3. Forgetting is noted first, then done, then noted again: after a crash in between it is done once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.coordinators.effects import Effect
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.groups.share.group import ShareGroup
from ottla.broker.coordinators.groups.share.partitions import SharedTopic, SharePartitions
from ottla.broker.coordinators.share_state.state import NOT_SET, ShareKey
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.running import Running
from ottla.errors import (
    BrokerError,
    GroupIdNotFound,
    OttlaError,
    UnknownServerError,
    UnknownTopicOrPartition,
    error_for_code,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

LATEST: Final = -1
NO_REPLICA: Final = -1


class OffsetNow(NamedTuple):
    """Of one partition; a group that was never there has no start offset."""

    start_offset: int = NOT_SET
    leader_epoch: int = 0
    lag: int = NOT_SET


class GroupOffsets:
    def __init__(self, broker: Broker, group_id: str) -> None:
        self._broker = broker
        self._group_id = group_id
        self._persister = broker.sharing.leaders.persister

    @property
    def group(self) -> ShareGroup:
        """Raises GroupIdNotFound, NotCoordinator and their kin."""
        return self._broker.groups.share_group(self._group_id)

    @property
    def initialized(self) -> Mapping[bytes, SharedTopic]:
        """The partitions that it has; none for a group that is not there. Raises NotCoordinator and its kin."""
        try:
            return self.group.partitions.initialized
        except GroupIdNotFound:
            return {}

    # -- reading -----------------------------------------------------------------------------------------------------

    def begin_read(self, topic_id: bytes, name: str, partition: int) -> Running[OffsetNow | BrokerError]:
        """Asked at once; the caller waits for it when all are asked."""
        return Running(self._read(topic_id, name, partition))

    async def _read(self, topic_id: bytes, name: str, partition: int) -> OffsetNow | BrokerError:
        try:
            found = await self._persister.summary(ShareKey(self._group_id, topic_id, partition))
            if found.start_offset == NOT_SET:
                return OffsetNow()
            lag = NOT_SET
            if found.complete_count != NOT_SET:
                lag = max(await self._end_offset(name, partition) - found.start_offset - found.complete_count, 0)
        except BrokerError as error:
            return error
        return OffsetNow(found.start_offset, found.leader_epoch, lag)

    async def _end_offset(self, topic: str, index: int) -> int:
        partition = self._broker.replicas.get(TopicPartition(topic, index))
        if partition is not None and partition.is_leader:
            return partition.high_watermark
        asked = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=NO_REPLICA, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], timeout_ms=0
        )
        try:
            answer = await self._broker.link.ask_leader(topic, index, request)
        except BrokerError:
            raise
        except (OttlaError, OSError) as error:
            raise UnknownServerError(str(error)) from error
        found = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
        if found.error_code:
            raise error_for_code(found.error_code)()
        return int(found.offset)

    # -- setting -----------------------------------------------------------------------------------------------------

    async def alter(
        self, wanted: Mapping[bytes, SharedTopic], offsets: Mapping[tuple[bytes, int], int], context: RequestContext
    ) -> dict[tuple[bytes, int], BrokerError | None]:
        """Set where the group begins; raises what refuses all of it."""
        await self._ask(lambda shard, token, now_ms: shard.shares.begin(token, self._group_id, wanted, context, now_ms))
        epoch = self.group.epoch
        asked = [
            (place, Running(self._set(ShareKey(self._group_id, *place), epoch, offset)))
            for place, offset in offsets.items()
        ]
        result = {place: await each.wait() for place, each in asked}
        done = {
            topic_id: SharedTopic(
                topic.name, frozenset(each for each in topic.partitions if not result[topic_id, each])
            )
            for topic_id, topic in wanted.items()
        }
        await self._keep(lambda now: now.with_initialized({key: each for key, each in done.items() if each.partitions}))
        return result

    async def _set(self, key: ShareKey, state_epoch: int, offset: int) -> BrokerError | None:
        try:
            await self._persister.initialize(key, state_epoch, offset)
        except BrokerError as error:
            return error
        return None

    # -- forgetting --------------------------------------------------------------------------------------------------

    async def delete(self, topic_ids: Sequence[bytes]) -> dict[bytes, BrokerError | None]:
        """Forget the group's state of these topics; raises what refuses all of it. A topic that it has no state of is
        UNKNOWN_TOPIC_OR_PARTITION."""
        group = self.group
        group.check_delete()
        result: dict[bytes, BrokerError | None] = {}
        known = {topic_id: found for topic_id in topic_ids if (found := _partitions(group, topic_id, self._broker))}
        for topic_id in topic_ids:
            if topic_id not in known:
                result[topic_id] = UnknownTopicOrPartition("This server does not host this topic-partition.")
        await self._keep(lambda now: now.with_deleting(known))
        asked = {topic_id: Running(self._forget(topic_id, found)) for topic_id, found in known.items()}
        result |= {topic_id: await each.wait() for topic_id, each in asked.items()}
        await self._keep(lambda now: now.without([each for each in known if result[each] is None]))
        return result

    async def _forget(self, topic_id: bytes, partitions: Sequence[int]) -> BrokerError | None:
        try:
            for each in partitions:
                await self._persister.delete(ShareKey(self._group_id, topic_id, each))
        except UnknownTopicOrPartition:
            return None  # the topic is gone, and the share coordinator forgets it by itself
        except BrokerError as error:
            return error
        return None

    # -- the group ---------------------------------------------------------------------------------------------------

    async def _keep(self, change: Callable[[SharePartitions], SharePartitions]) -> None:
        await self._ask(lambda shard, token, now_ms: shard.shares.keep(token, self._group_id, change))

    async def _ask(self, ask: Callable[[GroupShard, int, int], list[Effect]]) -> None:
        groups = self._broker.groups
        answer = await groups.runtime.call(groups.partition_of(self._group_id), ask)
        assert isinstance(answer, AlterShareGroupOffsetsResponse)
        if answer.error_code:
            raise error_for_code(answer.error_code)(answer.error_message)


def _partitions(group: ShareGroup, topic_id: bytes, broker: Broker) -> list[int]:
    """All that the share coordinator may know of a topic."""
    kept = group.partitions
    found: set[int] = set()
    for topics in (kept.initializing, kept.initialized):
        if topic_id in topics:
            found |= topics[topic_id].partitions
    if topic_id in kept.deleting:
        name = broker.image.topic_name(topic_id)
        found |= set(range((broker.image.partition_count(name) or 0) if name is not None else 0))
    return sorted(found)
