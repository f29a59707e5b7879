"""OffsetCommit and TxnOffsetCommit: what a group has read, now or when the transaction commits.

1. Topics come by name or, from OffsetCommit 10 on, by id; what the cluster does not have is refused partition by
   partition, the rest is committed.
2. The group decides for the whole request, and then for each partition (a member that is behind may still commit what
   it has had all the time). A group that does not exist may be committed to without a generation:
   that makes a simple group, which is nothing but its offsets.
3. All offsets of a request are one batch: they are kept together or not at all.
4. A client before version 5 may ask for a retention of its own; it is kept with the offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ottla.broker.coordinators.effects import ClusterView, Effect, Reply, StoredRecord, Token, Write
from ottla.broker.coordinators.groups.group import Group
from ottla.broker.coordinators.groups.group_responses import failing
from ottla.broker.coordinators.groups.records import NO_EXPIRY, offset_record
from ottla.broker.coordinators.groups.settings import GroupSettings
from ottla.broker.requests.context import RequestContext
from ottla.errors import (
    NONE,
    BrokerError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.light_tuples import NamedTuple
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID, Message

TOPIC_IDS_SINCE = 10  # OffsetCommit
GROUP_ID_NOT_FOUND_SINCE = 9  # OffsetCommit
LOADING_KNOWN_SINCE = 2  # TxnOffsetCommit: older producers end at COORDINATOR_LOAD_IN_PROGRESS
DEFAULT_RETENTION = -1

AnyTopic: TypeAlias = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
AnyPartition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


class _RequestedOffset(NamedTuple):
    """One offset of a commit request, and the error that refuses it (NONE: it is committed)."""

    topic_index: int
    topic: str
    topic_id: bytes
    partition: AnyPartition
    error_code: int


class Committing:
    """What both requests have in common: which partitions may be committed, and as which records."""

    def __init__(self, settings: GroupSettings, cluster: ClusterView) -> None:
        self._settings = settings
        self._cluster = cluster

    # -- OffsetCommit ------------------------------------------------------------------------------------------------

    def commit(
        self, group: Group | None, token: Token, request: OffsetCommitRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        requested = list(self._requested_offsets(request.topics, context.api_version >= TOPIC_IDS_SINCE))
        if not any(each.error_code == NONE for each in requested):
            return [Reply(token, _commit_answer(request, requested))]
        try:
            _check_commit(group, request, context.api_version)
        except BrokerError as error:
            return [Reply(token, _commit_answer(request, requested, error))]
        requested = _refuse_others(group, requested, request.member_id, request.generation_id_or_member_epoch)
        retention_ms = request.retention_time_ms
        expire_ms = NO_EXPIRY if retention_ms == DEFAULT_RETENTION else now_ms + retention_ms
        requested = self._refuse_long_metadata(requested)
        records = _records(request.group_id, requested, now_ms, expire_ms)
        if not records:
            return [Reply(token, _commit_answer(request, requested))]
        failure = failing(token, lambda error: _commit_answer(request, requested, error))
        return [Write(records, (Reply(token, _commit_answer(request, requested)),), failure)]

    # -- TxnOffsetCommit ---------------------------------------------------------------------------------------------

    def commit_in_transaction(
        self, group: Group | None, token: Token, request: TxnOffsetCommitRequest, context: RequestContext, now_ms: int
    ) -> list[Effect]:
        requested = list(self._requested_offsets(request.topics, by_id=False))
        if not any(each.error_code == NONE for each in requested):
            return [Reply(token, _txn_answer(request, requested))]
        try:
            _check_txn_commit(group, request, context.api_version)
        except BrokerError as error:
            return [Reply(token, _txn_answer(request, requested, error))]
        requested = _refuse_others(group, requested, request.member_id, request.generation_id, known_to_producers=True)
        # Kafka writes no topic id inside a transaction, so a name may be deleted and made again before the marker.
        requested = [each._replace(topic_id=ZERO_UUID) for each in self._refuse_long_metadata(requested)]
        records = _records(request.group_id, requested, now_ms, NO_EXPIRY)
        if not records:
            return [Reply(token, _txn_answer(request, requested))]
        failure = failing(token, _txn_failure(request, requested, context.api_version))
        reply = Reply(token, _txn_answer(request, requested))
        return [Write(records, (reply,), failure, request.producer_id, request.producer_epoch)]

    # -- partitions --------------------------------------------------------------------------------------------------

    def _requested_offsets(self, topics: Sequence[AnyTopic], by_id: bool) -> Iterator[_RequestedOffset]:
        for index, topic in enumerate(topics):
            name: str | None = topic.name
            topic_id: bytes | None = ZERO_UUID
            if by_id and isinstance(topic, OffsetCommitRequestTopic):
                topic_id, name = topic.topic_id, self._cluster.topic_name(topic.topic_id)
            elif name is not None:
                topic_id = self._cluster.topic_id(name)
            count = None if name is None else self._cluster.partition_count(name)
            for partition in topic.partitions:
                code = NONE
                if by_id and name is None:
                    code = UnknownTopicId.code
                elif count is None or not 0 <= partition.partition_index < count:
                    code = UnknownTopicOrPartition.code
                yield _RequestedOffset(index, name or "", topic_id or ZERO_UUID, partition, code)

    def _refuse_long_metadata(self, requested: list[_RequestedOffset]) -> list[_RequestedOffset]:
        limit = self._settings.offset_metadata_max_bytes
        return [
            each._replace(error_code=OffsetMetadataTooLarge.code)
            if each.error_code == NONE and len(each.partition.committed_metadata or "") > limit
            else each
            for each in requested
        ]


def _check_commit(group: Group | None, request: OffsetCommitRequest, api_version: int) -> None:
    generation = request.generation_id_or_member_epoch
    if group is not None:
        group.check_offset_commit(
            request.member_id, request.group_instance_id, generation, transactional=False, api_version=api_version
        )
    elif generation >= 0:
        if api_version >= GROUP_ID_NOT_FOUND_SINCE:
            raise GroupIdNotFound(request.group_id)
        raise IllegalGeneration(f"group {request.group_id} does not exist")


def _check_txn_commit(group: Group | None, request: TxnOffsetCommitRequest, api_version: int) -> None:
    if group is None:
        if request.generation_id >= 0:
            raise IllegalGeneration(f"group {request.group_id} does not exist")
        return
    try:
        group.check_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            transactional=True,
            api_version=api_version,
        )
    except StaleMemberEpoch as error:
        raise IllegalGeneration(error.detail) from error  # producers do not know the word of the new protocol


def _refuse_others(
    group: Group | None,
    requested: list[_RequestedOffset],
    member_id: str,
    generation: int,
    *,
    known_to_producers: bool = False,
) -> list[_RequestedOffset]:
    """A member that is behind may commit what it has had since then, and nothing else."""
    if group is None:
        return requested
    found = []
    for each in requested:
        if each.error_code == NONE:
            partition = each.partition.partition_index
            error = group.why_not_commit(member_id, generation, each.topic, each.topic_id, partition)
            if isinstance(error, StaleMemberEpoch) and known_to_producers:
                error = IllegalGeneration(error.detail)
            each = each._replace(error_code=NONE if error is None else error.code)
        found.append(each)
    return found


def _records(group_id: str, requested: list[_RequestedOffset], now_ms: int, expire_ms: int) -> tuple[StoredRecord, ...]:
    return tuple(
        offset_record(
            group_id,
            each.topic,
            each.partition.partition_index,
            offset=each.partition.committed_offset,
            leader_epoch=each.partition.committed_leader_epoch,
            metadata=each.partition.committed_metadata,
            now_ms=now_ms,
            expire_timestamp_ms=expire_ms,
            topic_id=each.topic_id,
        )
        for each in requested
        if each.error_code == NONE
    )


# -- answers ----------------------------------------------------------------------------------------------------------


def _code(each: _RequestedOffset, error: BrokerError | None) -> int:
    """A refused partition keeps its own code; the rest shares the fate of the request."""
    return each.error_code if each.error_code != NONE or error is None else error.code


def _commit_answer(
    request: OffsetCommitRequest, requested: list[_RequestedOffset], error: BrokerError | None = None
) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[]) for topic in request.topics
    ]
    for each in requested:
        topics[each.topic_index].partitions.append(
            OffsetCommitResponsePartition(partition_index=each.partition.partition_index, error_code=_code(each, error))
        )
    return OffsetCommitResponse(topics=topics)


def _txn_answer(
    request: TxnOffsetCommitRequest, requested: list[_RequestedOffset], error: BrokerError | None = None
) -> TxnOffsetCommitResponse:
    topics = [TxnOffsetCommitResponseTopic(name=topic.name, partitions=[]) for topic in request.topics]
    for each in requested:
        topics[each.topic_index].partitions.append(
            TxnOffsetCommitResponsePartition(
                partition_index=each.partition.partition_index, error_code=_code(each, error)
            )
        )
    return TxnOffsetCommitResponse(topics=topics)


def _txn_failure(
    request: TxnOffsetCommitRequest, requested: list[_RequestedOffset], api_version: int
) -> Callable[[BrokerError], Message]:
    def answer(error: BrokerError) -> Message:
        if isinstance(error, CoordinatorLoadInProgress) and api_version < LOADING_KNOWN_SINCE:
            error = CoordinatorNotAvailable(error.detail)
        return _txn_answer(request, requested, error)

    return answer


def txn_commit_error(request: TxnOffsetCommitRequest, error: BrokerError) -> TxnOffsetCommitResponse:
    return _txn_answer(request, _all_requested(request.topics), error)


def _all_requested(topics: Sequence[AnyTopic]) -> list[_RequestedOffset]:
    return [
        _RequestedOffset(index, topic.name, ZERO_UUID, partition, NONE)
        for index, topic in enumerate(topics)
        for partition in topic.partitions
    ]
