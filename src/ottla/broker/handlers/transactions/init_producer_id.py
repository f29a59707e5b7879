"""InitProducerId: a producer gets its id and epoch, and fences its predecessors.

Without a transactional id any broker gives a new id from its block; with one, the coordinator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transactions.producer_ids import answer_without_transactional_id
from ottla.broker.coordinators.transactions.shard import TransactionShard
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


WRITE_ID = Need(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID, when="with a transactional id")
WRITE_ANY_TOPIC = Need(AclOperation.WRITE, AclResource.TOPIC, when="on any topic")
IDEMPOTENT_WRITE = Need(
    AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER, when="without a transactional id", unless=WRITE_ANY_TOPIC
)
SERVES = Served(InitProducerIdRequest, needs=(WRITE_ID, IDEMPOTENT_WRITE))


async def handle(broker: Broker, request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is None:
        if not WRITE_ANY_TOPIC.is_met_by_any(broker, context):
            IDEMPOTENT_WRITE.check(broker, context)
        return answer_without_transactional_id(request, broker.producer_ids.next_id)
    WRITE_ID.check(broker, context, request.transactional_id)
    return await broker.transactions.ask_or(
        request.transactional_id,
        TransactionShard.init_producer_id,
        request,
        context,
        lambda error: InitProducerIdResponse(error_code=error.code, producer_epoch=-1),
    )
