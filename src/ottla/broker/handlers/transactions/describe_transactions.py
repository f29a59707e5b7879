"""DescribeTransactions: state, partitions and producer of transactions, each asked at its own shard.

Version 0 only. An id that this coordinator does not know is TRANSACTIONAL_ID_NOT_FOUND at that id; one that another
coordinator looks after, or that is being loaded, has the coordinator's error. An id named twice is described once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.coordinators.transactions.txn_responses import not_described
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    DescribeTransactionsRequest,
    is_paced=True,
    needs=(Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, lambda request: request.transactional_ids),),
)


async def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    with broker.pacing.turn(context.connection) as pace:
        answers = await broker.transactions.ask_each(
            pace,
            dict.fromkeys(request.transactional_ids),
            TransactionShard.describe_transactions,
            lambda transactional_id: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            context,
            lambda transactional_id, error: DescribeTransactionsResponse(
                transaction_states=[not_described(transactional_id, error)]
            ),
        )
    states = [state for answer in answers for state in answer.transaction_states]
    return DescribeTransactionsResponse(transaction_states=states)
