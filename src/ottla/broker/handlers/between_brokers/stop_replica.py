"""StopReplica: the controller says which replicas stop following here, and which are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(StopReplicaRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    return await member_of(broker).orders.stop(request)
