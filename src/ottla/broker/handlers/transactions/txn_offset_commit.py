"""TxnOffsetCommit: a group's offsets, kept only if the transaction commits.

From version 5 on the group joins the transaction by this request; before, AddOffsetsToTxn did it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.coordinator import TOPIC
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.coordinators.transactions.verifying import refused_partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ABORTABLE_SINCE = 4
IMPLICIT_ADD_SINCE = 5


WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
READ_GROUP = Need(AclOperation.READ, AclResource.GROUP)
READ_TOPIC = Need(AclOperation.READ, AclResource.TOPIC, Refused.ENTRY)
SERVES = Served(TxnOffsetCommitRequest, is_paced=True, needs=(WRITE_ID, READ_GROUP, READ_TOPIC))


async def handle(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    try:
        WRITE_ID.check(broker, context, request.transactional_id)
        READ_GROUP.check(broker, context, request.group_id)
    except BrokerError as error:
        return _refusal(request.topics, error)
    request.topics, refused = READ_TOPIC.split(broker, context, request.topics, lambda topic: topic.name)
    request.topics, unknown = _known(broker, request.topics)
    answer = TxnOffsetCommitResponse(topics=[])
    if request.topics or not (refused or unknown):
        answer = await _commit(broker, request, context)
    answer.topics += _refusal(unknown, UnknownTopicOrPartition()).topics
    answer.topics += _refusal(refused, READ_TOPIC.refusal(context)).topics
    return answer


def _known(
    broker: Broker, topics: list[TxnOffsetCommitRequestTopic]
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    """The partitions that exist, and those that do not; a topic may have both."""
    known: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitRequestTopic] = []
    for topic in topics:
        count = broker.image.partition_count(topic.name) or 0
        for found, is_known in ((known, True), (unknown, False)):
            partitions = [each for each in topic.partitions if (each.partition_index in range(count)) is is_known]
            if partitions:
                found.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions))
    return known, unknown


async def _commit(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    try:
        name = TopicPartition(TOPIC, broker.groups.partition_of(request.group_id))
        guard = _guard(broker, name, request, context)
        if guard is not None:
            await _verify(broker, name, request, context)
        answer: TxnOffsetCommitResponse = await broker.groups.ask(
            request.group_id, GroupShard.commit_offsets_in_transaction, request, context, guard=guard
        )
    except BrokerError as error:
        return _refusal(request.topics, error)
    return answer


def _guard(
    broker: Broker, name: TopicPartition, request: TxnOffsetCommitRequest, context: RequestContext
) -> VerificationGuard | None:
    """What must be shown with the append when the coordinator has to be asked first; None when it need not be."""
    partition = broker.replicas.get(name)
    if partition is None:
        return None
    return partition.log.producers.start_verification(
        request.producer_id,
        0,
        request.producer_epoch,
        now_ms=broker.clock.now_ms(),
        raises_epoch=context.api_version >= IMPLICIT_ADD_SINCE,
    )


async def _verify(
    broker: Broker, name: TopicPartition, request: TxnOffsetCommitRequest, context: RequestContext
) -> None:
    """Raise unless the transaction coordinator agrees that the group's partition is part of the transaction."""
    refused = await broker.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [name],
        verify_only=context.api_version < IMPLICIT_ADD_SINCE,
        context=context,
    )
    if name in refused:
        raise refused_partition(refused[name], knows_abortable=context.api_version >= ABORTABLE_SINCE)


def _refusal(topics: list[TxnOffsetCommitRequestTopic], error: BrokerError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error.code)
                    for one in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
