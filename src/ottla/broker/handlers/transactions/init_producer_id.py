"""InitProducerId: a producer gets its id and epoch, and fences its predecessors.

Without a transactional id any broker gives a new id from its block; with one, the coordinator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.producer_ids import answer_without_transactional_id
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    InitProducerIdRequest,
    needs=(
        Need(
            AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, lambda request: filter(None, [request.transactional_id])
        ),
    ),
)


async def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is None:
        return answer_without_transactional_id(request, broker.producer_ids.next_id)
    return await broker.transactions.ask_or(
        request.transactional_id,
        TransactionShard.init_producer_id,
        request,
        context,
        lambda error: InitProducerIdResponse(error_code=error.code, producer_epoch=-1),
    )
