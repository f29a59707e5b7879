"""AddPartitionsToTxn: partitions become part of a transaction.

Up to version 3 a client asks for one transaction; if one of its partitions does not exist, the others are
OPERATION_NOT_ATTEMPTED. From version 4 on brokers ask for many, also only to verify.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
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


SERVES = Served(
    AddPartitionsToTxnRequest,
    is_paced=True,
    needs=(
        Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, lambda request: [request.v3_and_below_transactional_id]),
    ),
)


async def handle(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.api_version < BATCHED_SINCE:
        return await _for_a_client(broker, request, context)
    asked = []
    with broker.pacing.turn(context.connection) as pace:
        for each in request.transactions:
            asked.append(_for_a_broker(broker, each, context))
            await pace.step()
    answers = [await each for each in asked]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[result for answer in answers for result in answer.results_by_transaction]
    )


async def _for_a_client(
    broker: Broker, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    if any(not _exists(broker, topic.name, index) for topic in topics for index in topic.partitions):
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[_not_attempted(broker, t) for t in topics])

    def refused(error: BrokerError) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[_refused(topic, error) for topic in topics])

    return await broker.transactions.ask_or(
        request.v3_and_below_transactional_id, TransactionShard.add_partitions_to_txn, request, context, refused
    )


def _for_a_broker(
    broker: Broker, each: AddPartitionsToTxnTransaction, context: RequestContext
) -> asyncio.Future[AddPartitionsToTxnResponse]:
    def refused(error: BrokerError) -> AddPartitionsToTxnResponse:
        result = AddPartitionsToTxnResult(
            transactional_id=each.transactional_id, topic_results=[_refused(topic, error) for topic in each.topics]
        )
        return AddPartitionsToTxnResponse(results_by_transaction=[result])

    request = AddPartitionsToTxnRequest(transactions=[each])
    return broker.transactions.ask_or(
        each.transactional_id, TransactionShard.add_partitions_to_txn, request, context, refused
    )


def _exists(broker: Broker, topic: str, index: int) -> bool:
    return index in range(broker.image.partition_count(topic) or 0)


def _not_attempted(broker: Broker, topic: AddPartitionsToTxnTopic) -> AddPartitionsToTxnTopicResult:
    codes = {
        index: OperationNotAttempted.code if _exists(broker, topic.name, index) else UnknownTopicOrPartition.code
        for index in topic.partitions
    }
    return _result(topic.name, codes)


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
