"""Vote: a node asks for this voter's vote, or whether it would get it (cluster/raft/raft.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(VoteRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: VoteRequest, context: RequestContext) -> VoteResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).raft_loop.vote(request)
