"""AllocateProducerIds, on the controller: a broker needs a block of producer ids (cluster/brokers.py)."""

from __future__ import annotations

from typing import Any

from ottla.broker.cluster.ask_controller import asked
from ottla.broker.cluster.controller_role import HasControllerRole
from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.controller.events import ProducerIdsAsked
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


def handle(broker: HasControllerRole, request: AllocateProducerIdsRequest, context: RequestContext) -> Later[Any]:
    return asked(
        broker,
        ProducerIdsAsked(request),
        lambda error: AllocateProducerIdsResponse(error_code=error.code, producer_id_start=-1, producer_id_len=0),
    )
