"""BrokerRegistration: a broker comes, or says something else of itself (cluster/quorum_controller/registrations.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(BrokerRegistrationRequest, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: BrokerRegistrationRequest, context: RequestContext
) -> BrokerRegistrationResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).controller.register_broker(request)
