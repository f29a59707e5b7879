"""ListTransactions: the transactions of every shard that is on this broker.

Filters by state and producer id; from version 1 on by how long the transaction runs; from version 2 on by a pattern
that the whole id must match (patterns.py: RE2's syntax, INVALID_REGULAR_EXPRESSION when it cannot be read). A state
that does not exist is told as unknown and matches nothing. While a shard is being loaded the answer is
COORDINATOR_LOAD_IN_PROGRESS, because a part of the list would look like all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.transactions.txn_responses import listed
from ottla.broker.patterns.patterns import compile_pattern
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import NONE, BrokerError, CoordinatorLoadInProgress
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

Matches = Callable[[str], bool]


DESCRIBE_ID = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, Refused.LEFT_OUT)
SERVES = Served(ListTransactionsRequest, needs=(DESCRIBE_ID,))


async def handle(broker: Broker, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        if broker.transactions.runtime.is_loading:
            raise CoordinatorLoadInProgress()
        matches = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except BrokerError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])
    asked = _ask_all(broker, request, context, matches)
    states = [state for each in asked for state in (await each).transaction_states]
    states, _ = DESCRIBE_ID.split(broker, context, states, lambda state: state.transactional_id)
    # Listed once more of nothing, because a broker without shards must name unknown states, too.
    unknown = listed((), request, broker.clock.now_ms(), None).unknown_state_filters
    return ListTransactionsResponse(error_code=NONE, unknown_state_filters=unknown, transaction_states=states)


def _ask_all(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext, matches: Matches | None
) -> list[asyncio.Future[Any]]:
    runtime = broker.transactions.runtime
    return [
        runtime.call(
            index,
            lambda shard, token, now_ms: shard.list_transactions(token, request, context, now_ms, matches),
        )
        for index, _ in list(runtime.shards())
    ]
