"""AddPartitionsToTxn: partitions become part of a transaction.

Up to version 3 a client asks for one transaction, from version 4 on brokers ask for many, also only to verify. If one
of the partitions of a transaction does not exist, or may not be written to, the others are OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import BrokerError, OperationNotAttempted, UnknownTopicOrPartition
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

BATCHED_SINCE = 4


WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, Refused.ENTRY, when="up to version 3")
WRITE_TOPIC = Need(AclOperation.WRITE, AclResource.TOPIC, Refused.ENTRY, when="up to version 3")
CLUSTER_ACTION = Need(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER, when="from version 4 on")
SERVES = Served(AddPartitionsToTxnRequest, is_paced=True, needs=(WRITE_ID, WRITE_TOPIC, CLUSTER_ACTION))


async def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.api_version < BATCHED_SINCE:
        return await _for_a_client(broker, request, context)
    CLUSTER_ACTION.check(broker, context)
    asked = []
    with broker.pacing.turn(context.connection) as pace:
        for each in request.transactions:
            asked.append(_for_a_broker(broker, each, context))
            await pace.step()
    answers = [await each if isinstance(each, asyncio.Future) else each for each in asked]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for answer in answers for result in answer.results_by_transaction]
    )


async def _for_a_client(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    transactional_id = request.v3_and_below_transactional_id

    def refused(error: BrokerError) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[_refused(topic, error) for topic in topics])

    if not WRITE_ID.is_met(broker, context, transactional_id):
        return refused(WRITE_ID.refusal(context))
    names = {topic.name for topic in topics} - broker.internal_topics  # those are the coordinators' own business
    if not_added := _not_added(broker, topics, WRITE_TOPIC.met_by(broker, context, names)):
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=not_added)
    return await broker.transactions.ask_or(
        transactional_id, TransactionShard.add_partitions_to_txn, request, context, refused
    )


def _for_a_broker(
    broker: Broker, each: AddPartitionsToTxnTransaction, context: RequestContext
) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
    def answer(results: list[AddPartitionsToTxnTopicResult]) -> AddPartitionsToTxnResponse:
        result = AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=results)
        return AddPartitionsToTxnResponse(results_by_transaction=[result])

    if not_added := _not_added(broker, each.topics, {topic.name for topic in each.topics}):
        return answer(not_added)
    return broker.transactions.ask_or(
        each.transactional_id,
        TransactionShard.add_partitions_to_txn,
        AddPartitionsToTxnRequest(transactions=[each]),
        context,
        lambda error: answer([_refused(topic, error) for topic in each.topics]),
    )


def _not_added(
    broker: Broker, topics: list[AddPartitionsToTxnTopic], allowed: Collection[str]
) -> list[AddPartitionsToTxnTopicResult]:
    """Why none of these can be added; nothing when all can: one that cannot keeps the others out."""
    codes = [
        {
            index: _code(broker, topic.name, index) if topic.name in allowed else WRITE_TOPIC.code
            for index in topic.partitions
        }
        for topic in topics
    ]
    if all(code == OperationNotAttempted.code for each in codes for code in each.values()):
        return []
    return [_result(topic.name, each) for topic, each in zip(topics, codes, strict=True)]


def _code(broker: Broker, topic: str, index: int) -> int:
    exists = index in range(broker.image.partition_count(topic) or 0)
    return OperationNotAttempted.code if exists else UnknownTopicOrPartition.code


def _refused(topic: AddPartitionsToTxnTopic, error: BrokerError) -> AddPartitionsToTxnTopicResult:
    return _result(topic.name, dict.fromkeys(topic.partitions, error.code))


def _result(name: str, codes: dict[int, int]) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index, code in codes.items()
        ],
    )
