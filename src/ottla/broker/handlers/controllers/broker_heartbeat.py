"""BrokerHeartbeat: a broker lives, wants to be unfenced, or to stop (cluster/quorum_controller/heartbeats.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(BrokerHeartbeatRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: BrokerHeartbeatRequest, context: RequestContext) -> BrokerHeartbeatResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).controller.heartbeat(request)
