"""LeaderAndIsr: the controller says which partitions this broker leads and follows, and in which epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.link import member_of
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(LeaderAndIsrRequest, entries=WIDE_ENTRIES, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    return await member_of(broker).orders.become(request, context.api_version)
