"""InitProducerId: a producer gets its id and epoch, and fences its predecessors.

Without a transactional id any broker gives a new id from its block; with one, the coordinator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.coordinators.transactions.producer_ids import answer_without_transactional_id
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.answers import Later
from ottla.errors import BrokerError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(
    broker: Broker, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Later[Any]:
    if request.transactional_id is None:
        return answer_without_transactional_id(request, broker.next_producer_id)
    try:
        return broker.transactions.ask(request.transactional_id, TransactionShard.init_producer_id, request, context)
    except BrokerError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
