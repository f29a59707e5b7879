"""DescribeTransactions: state, partitions and producer of transactions, each asked at its own shard.

Version 0 only. An id that this coordinator does not know is TRANSACTIONAL_ID_NOT_FOUND at that id; one that another
coordinator looks after, or that is being loaded, has the coordinator's error. An id named twice is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.coordinators.transactions.txn_responses import not_described
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.requests.slicing import Slices
from ottla.broker.security.needs import Need, Refused
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_ID = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, Refused.ENTRY)
DESCRIBE_TOPIC = Need(AclOperation.DESCRIBE, AclResource.TOPIC, Refused.LEFT_OUT)
SLICES = Slices("transactional_ids", "transaction_states", is_set=True)
SERVES = Served(DescribeTransactionsRequest, slices=SLICES, needs=(DESCRIBE_ID, DESCRIBE_TOPIC))


async def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    asked, refused = DESCRIBE_ID.split(broker, context, list(dict.fromkeys(request.transactional_ids)), str)
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.transactions.ask_each(
            pace,
            asked,
            TransactionShard.describe_transactions,
            lambda transactional_id: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            context,
            lambda transactional_id, error: DescribeTransactionsResponse(
                transaction_states=[not_described(transactional_id, error)]
            ),
        )
    states = [state for answer in answers for state in answer.transaction_states]
    for state in states:
        state.topics, _ = DESCRIBE_TOPIC.split(broker, context, state.topics, lambda topic: topic.topic)
    states += [not_described(each, DESCRIBE_ID.refusal(context)) for each in refused]
    return DescribeTransactionsResponse(transaction_states=states)
