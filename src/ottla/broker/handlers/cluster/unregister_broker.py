"""UnregisterBroker: forget a broker that will not come back (cluster/unregistering.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.unregistering import unregister_broker
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(UnregisterBrokerRequest, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    ALTER_CLUSTER.check(broker, context)
    return await decided(broker, request, context, _decide)


async def _decide(
    broker: Broker, request: UnregisterBrokerRequest, context: RequestContext
) -> UnregisterBrokerResponse:
    def is_alive(broker_id: int) -> bool:
        """Controllers forget brokers that live, too, as Kafka's do: such a one registers again."""
        return not broker.link.is_controller and (broker_id == broker.id or not broker.link.is_alone)

    try:
        await broker.link.change(lambda image: unregister_broker(image, request.broker_id, is_alive))
    except BrokerError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=str(error))
    return UnregisterBrokerResponse(error_code=NONE)
