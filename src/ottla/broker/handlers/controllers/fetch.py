"""Fetch, on a controller: the metadata log, for voters and for brokers that follow it (cluster/raft/log_answers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(FetchRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> FetchResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).raft_loop.fetch(request, context.api_version)
