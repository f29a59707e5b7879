"""AllocateProducerIds, on a controller: a broker needs a block of producer ids (cluster/brokers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(AllocateProducerIdsRequest, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).controller.allocate_producer_ids(request)
