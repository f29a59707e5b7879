"""EndQuorumEpoch: a leader resigns, and says who should stand first (cluster/raft/raft.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(EndQuorumEpochRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: EndQuorumEpochRequest, context: RequestContext) -> EndQuorumEpochResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).raft_loop.end_quorum_epoch(request)
