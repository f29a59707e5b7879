"""DescribeTransactions: state, partitions and producer of transactions, each asked at its own shard.

Version 0 only. An id that this coordinator does not know is TRANSACTIONAL_ID_NOT_FOUND at that id; one that another
coordinator looks after, or that is being loaded, has the coordinator's error. An id named twice is told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.coordinators.transactions.txn_responses import not_described
from ottla.broker.requests.answers import Later
from ottla.broker.requests.long_work import Steps, ask_each
from ottla.errors import BrokerError
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: DescribeTransactionsRequest, context: RequestContext) -> Later[Any]:
    return broker.long_work.do(_steps(broker, request, context), context.connection)


def _steps(broker: Broker, request: DescribeTransactionsRequest, context: RequestContext) -> Steps[Later[Any]]:
    def joined(answers: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states = [state for answer in answers for state in answer.transaction_states]
        return DescribeTransactionsResponse(transaction_states=states)

    return ask_each((_one(broker, each, context) for each in dict.fromkeys(request.transactional_ids)), joined)


def _one(broker: Broker, transactional_id: str, context: RequestContext) -> Later[Any]:
    single = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    try:
        return broker.transactions.ask(transactional_id, TransactionShard.describe_transactions, single, context)
    except BrokerError as error:
        return Later.given(DescribeTransactionsResponse(transaction_states=[not_described(transactional_id, error)]))
