"""TxnOffsetCommit: a group's offsets, kept only if the transaction commits.

From version 5 on the group joins the transaction by this request; before, AddOffsetsToTxn did it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.groups.coordinator import TOPIC
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.produce.verification import refused_partition
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
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


SERVES = Served(
    TxnOffsetCommitRequest,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, lambda request: [request.transactional_id]),
        Need(AclOperation.READ, AclResource.GROUP, lambda request: [request.group_id]),
        Need(AclOperation.READ, AclResource.TOPIC, lambda request: [topic.name for topic in request.topics]),
    ),
)


async def handle(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    try:
        name = TopicPartition(TOPIC, broker.groups.partition_of(request.group_id))
        guard = _guard(broker, name, request, context)
        if guard is not None:
            await _verify(broker, name, request, context)
        answer: TxnOffsetCommitResponse = await broker.groups.ask(
            request.group_id, GroupShard.commit_offsets_in_transaction, request, context, guard=guard
        )
    except BrokerError as error:
        return _refusal(request, error)
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


def _refusal(request: TxnOffsetCommitRequest, error: BrokerError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=error.code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
