"""BeginQuorumEpoch: a leader says to a voter that its epoch has begun (cluster/raft/raft.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(BeginQuorumEpochRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: BeginQuorumEpochRequest, context: RequestContext) -> BeginQuorumEpochResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).raft_loop.begin_quorum_epoch(request)
