"""FetchSnapshot: a piece of a snapshot of the metadata (cluster/raft/log_answers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(FetchSnapshotRequest, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: FetchSnapshotRequest, context: RequestContext) -> FetchSnapshotResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).raft_loop.fetch_snapshot(request)
