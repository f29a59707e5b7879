"""AllocateProducerIds, on the controller: a broker needs a block of producer ids (cluster/brokers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.cluster.controller.events import ProducerIdsAsked
from ottla.errors import BrokerError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(AllocateProducerIdsRequest, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    try:
        answer = await member_of(broker).role.ask(ProducerIdsAsked(request))
        assert isinstance(answer, AllocateProducerIdsResponse)
    except BrokerError as error:
        return AllocateProducerIdsResponse(error_code=error.code, producer_id_start=-1, producer_id_len=0)
    return answer
