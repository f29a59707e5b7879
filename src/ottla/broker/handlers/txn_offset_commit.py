"""TxnOffsetCommit: a group's offsets, kept only if the transaction commits.

From version 5 on the group joins the transaction by this request; before, AddOffsetsToTxn did it (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.groups.coordinator import TOPIC
from ottla.broker.coordinators.groups.shard import GroupShard
from ottla.broker.produce.verification import refused_partition
from ottla.broker.requests.answers import Later
from ottla.errors import BrokerError
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.schema import Message
from ottla.storage.producers.check import VerificationGuard
from ottla.values import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ABORTABLE_SINCE = 4
IMPLICIT_ADD_SINCE = 5


def handle(broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext) -> Message | Later[Any]:
    try:
        home = TopicPartition(TOPIC, broker.groups.partition_of(request.group_id))
        partition = broker.replicas.get(home)
        if partition is None:
            return broker.groups.ask(request.group_id, GroupShard.commit_offsets_in_transaction, request, context)
        guard = partition.log.producers.start_verification(
            request.producer_id,
            0,
            request.producer_epoch,
            now_ms=broker.clock.now_ms(),
            raises_epoch=context.api_version >= IMPLICIT_ADD_SINCE,
        )
    except BrokerError as error:
        return _refusal(request, error)
    if guard is None:
        return _commit(broker, request, context, None)
    asked = broker.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [home],
        verify_only=context.api_version < IMPLICIT_ADD_SINCE,
        context=context,
    )
    later: Later[Any] = Later()

    def verified(refused: dict[TopicPartition, BrokerError]) -> None:
        if home in refused:
            told = refused_partition(refused[home], knows_abortable=context.api_version >= ABORTABLE_SINCE)
            later.give(_refusal(request, told))
            return
        given = _commit(broker, request, context, guard)
        if isinstance(given, Later):
            given.when_given(later.give)
        else:
            later.give(given)

    asked.when_given(verified)
    return later


def _commit(
    broker: Broker, request: TxnOffsetCommitRequest, context: RequestContext, guard: VerificationGuard | None
) -> Message | Later[Any]:
    try:
        return broker.groups.ask(
            request.group_id, GroupShard.commit_offsets_in_transaction, request, context, guard=guard
        )
    except BrokerError as error:
        return _refusal(request, error)


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
