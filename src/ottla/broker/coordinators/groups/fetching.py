"""OffsetFetch and OffsetDelete: what a group has read, and forgetting it.

1. An offset that was never committed is -1 without an error, and so is everything of a group that does not exist.
2. With require_stable a partition that an open transaction may still change is UNSTABLE_OFFSET_COMMIT; without, the
   last committed offset is answered.
3. What is answered is committed: the answer waits for what was written before it.
4. From version 10 on topics go by id. An id that the cluster does not know is refused; an offset committed for
   another topic of the same name is none of this one's.
5. Offsets that a member reads cannot be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, Token, Write
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.group_responses import after_commit, failing
from ottla.broker.coordinators.groups.offset_store import CommittedOffset, OffsetStore
from ottla.broker.coordinators.groups.records import offset_tombstone
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    NONE,
    BrokerError,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NotCoordinator,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.schema import ZERO_UUID

TOP_LEVEL_ERROR_SINCE = 2
SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
NO_OFFSET = -1


class Fetching:
    def __init__(self, offsets: OffsetStore, cluster: ClusterView) -> None:
        self._offsets = offsets
        self._cluster = cluster

    # -- OffsetFetch -------------------------------------------------------------------------------------------------

    def fetch(
        self, groups: Mapping[str, Group], token: Token, request: OffsetFetchRequest, context: RequestContext
    ) -> list[Effect]:
        version = context.api_version
        requested = _requested_groups(request, version)
        answers = [
            self._of_group(groups.get(each.group_id), each, request.require_stable, version) for each in requested
        ]

        def failure(error: BrokerError) -> OffsetFetchResponse:
            # Consumers before 3.9 do not expect COORDINATOR_NOT_AVAILABLE here; this one they know.
            answered = NotCoordinator(error.detail) if isinstance(error, CoordinatorNotAvailable) else error
            return _fetch_answer([fetch_group_error(each, answered, version) for each in requested], version)

        return [after_commit(token, _fetch_answer(answers, version), failure)]

    def _of_group(
        self, group: Group | None, requested: OffsetFetchRequestGroup, require_stable: bool, api_version: int
    ) -> OffsetFetchResponseGroup:
        try:
            if group is not None:
                group.check_offset_fetch(requested.member_id, requested.member_epoch)
        except BrokerError as error:
            return fetch_group_error(requested, error, api_version)
        by_id = api_version >= TOPIC_IDS_SINCE
        if requested.topics is None:
            topics = self._all_topics(requested.group_id, require_stable, by_id)
        else:
            topics = [self._of_topic(requested.group_id, topic, require_stable, by_id) for topic in requested.topics]
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)

    def _of_topic(
        self, group_id: str, requested: OffsetFetchRequestTopics, require_stable: bool, by_id: bool
    ) -> OffsetFetchResponseTopics:
        name = self._cluster.topic_name(requested.topic_id) if by_id else requested.name
        if name is None:
            partitions = [_partition(index, error_code=UnknownTopicId.code) for index in requested.partition_indexes]
        else:
            partitions = [
                self._of_partition(group_id, name, index, require_stable, requested.topic_id)
                for index in requested.partition_indexes
            ]
        return OffsetFetchResponseTopics(name=name or "", topic_id=requested.topic_id, partitions=partitions)

    def _all_topics(self, group_id: str, require_stable: bool, by_id: bool) -> list[OffsetFetchResponseTopics]:
        topics = []
        for name, partitions in self._offsets.of_group(group_id).items():
            topic_id = (self._cluster.topic_id(name) or ZERO_UUID) if by_id else ZERO_UUID
            if by_id and topic_id == ZERO_UUID:
                continue  # a topic that is gone has no id for the answer
            found = [self._of_partition(group_id, name, index, require_stable) for index in partitions]
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=found))
        return topics

    def _of_partition(
        self, group_id: str, topic: str, partition: int, require_stable: bool, topic_id: bytes = ZERO_UUID
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self._offsets.has_pending(group_id, topic, partition):
            return _partition(partition, error_code=UnstableOffsetCommit.code)
        known = self._offsets.get(group_id, topic, partition)
        if known is None or _is_of_another_topic(known, topic_id):
            return _partition(partition)
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=known.offset,
            committed_leader_epoch=known.leader_epoch,
            metadata=known.metadata,
            error_code=NONE,
        )

    # -- OffsetDelete ------------------------------------------------------------------------------------------------

    def delete(self, group: Group | None, token: Token, request: OffsetDeleteRequest) -> list[Effect]:
        try:
            if group is None:
                raise GroupIdNotFound(request.group_id)
            group.check_offset_delete()
        except BrokerError as error:
            return [Reply(token, delete_error(error))]
        answer = OffsetDeleteResponse(error_code=NONE, topics=[])
        records = []
        for topic in request.topics:
            result = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
            answer.topics.append(result)
            for index in (each.partition_index for each in topic.partitions):
                code = self._why_not_delete(group, topic.name, index)
                result.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if code == NONE and self._is_known(request.group_id, topic.name, index):
                    records.append(offset_tombstone(request.group_id, topic.name, index))
        if not records:
            return [Reply(token, answer)]
        return [Write(tuple(records), (Reply(token, answer),), failing(token, delete_error))]

    def _why_not_delete(self, group: Group, topic: str, partition: int) -> int:
        count = self._cluster.partition_count(topic)
        if count is None or not 0 <= partition < count:
            return UnknownTopicOrPartition.code
        return GroupSubscribedToTopic.code if group.is_subscribed_to(topic) else NONE

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        return self._offsets.get(group_id, topic, partition) is not None or self._offsets.has_pending(
            group_id, topic, partition
        )


def delete_error(error: BrokerError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error.code, topics=[])


def _is_of_another_topic(known: CommittedOffset, topic_id: bytes) -> bool:
    return ZERO_UUID not in (known.topic_id, topic_id) and known.topic_id != topic_id


def _partition(index: int, *, error_code: int = NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error_code
    )


def _requested_groups(request: OffsetFetchRequest, api_version: int) -> list[OffsetFetchRequestGroup]:
    """One shape for all versions: before version 8 a request is about one group."""
    if api_version >= SEVERAL_GROUPS_SINCE:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


def _fetch_answer(groups: list[OffsetFetchResponseGroup], api_version: int) -> OffsetFetchResponse:
    if api_version >= SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_as_before(each) for each in topic.partitions])
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _as_before(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def fetch_group_error(
    requested: OffsetFetchRequestGroup, error: BrokerError, api_version: int
) -> OffsetFetchResponseGroup:
    """Version 1 has no place for an error of the group, so every partition carries it."""
    if api_version >= TOP_LEVEL_ERROR_SINCE:
        return OffsetFetchResponseGroup(group_id=requested.group_id, topics=[], error_code=error.code)
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name, partitions=[_partition(index, error_code=error.code) for index in topic.partition_indexes]
        )
        for topic in requested.topics or []
    ]
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)
