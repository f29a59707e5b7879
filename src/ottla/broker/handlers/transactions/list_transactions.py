"""ListTransactions: the transactions of every shard that is on this broker.

Filters by state and producer id; from version 1 on by how long the transaction runs; from version 2 on by a pattern
that the whole id must match (patterns.py: RE2's syntax, INVALID_REGULAR_EXPRESSION when it cannot be read). A state
that does not exist is told as unknown and matches nothing. While a shard is being loaded the answer is
COORDINATOR_LOAD_IN_PROGRESS, because a part of the list would look like all of it.

The pattern sees only ids that its sender may describe, in pieces (pacing.py), and within PATTERN_STEPS: above that it
is answered as one that cannot be read. So nobody is held up by an expression, and strangers cannot even begin to match.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.coordinators.transactions.txn_responses import listed
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.budget import Budget, BudgetExceeded
from ottla.errors import NONE, BrokerError, CoordinatorLoadInProgress, InvalidRegularExpression
from ottla.patterns.patterns import Automaton, compile_pattern
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PATTERN_STEPS: Final = 2_000_000

DESCRIBE_ID = Need(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID, Refused.LEFT_OUT)
SERVES = Served(ListTransactionsRequest, is_paced=True, needs=(DESCRIBE_ID,))


async def handle(broker: Broker, request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        if broker.transactions.runtime.is_loading:
            raise CoordinatorLoadInProgress()
        pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
        states = [state for part in _ask_all(broker, request, context) for state in (await part).transaction_states]
        states, _ = DESCRIBE_ID.split(broker, context, states, lambda state: state.transactional_id)
        if pattern is not None:
            states = await _matching(broker, context, pattern, states)
    except BrokerError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])
    # Listed once more of nothing, because a broker without shards must name unknown states, too.
    unknown = listed((), request, broker.clock.now_ms()).unknown_state_filters
    return ListTransactionsResponse(error_code=NONE, unknown_state_filters=unknown, transaction_states=states)


async def _matching(
    broker: Broker, context: RequestContext, pattern: Automaton, states: list[TransactionState]
) -> list[TransactionState]:
    budget = Budget(PATTERN_STEPS, "matching the expression")
    matching = []
    try:
        with broker.pacing.turn(context.connection) as pace:
            for state in states:
                if await pace.run(pattern.match_in_pieces(state.transactional_id, budget)):
                    matching.append(state)
                await pace.step()
    except BudgetExceeded as problem:
        raise InvalidRegularExpression(str(problem)) from problem
    return matching


def _ask_all(broker: Broker, request: ListTransactionsRequest, context: RequestContext) -> list[asyncio.Future[Any]]:
    runtime = broker.transactions.runtime
    return [
        runtime.call(
            index,
            lambda shard, token, now_ms: shard.list_transactions(token, request, context, now_ms),
        )
        for index, _ in list(runtime.shards())
    ]
