"""AssignReplicasToDirs: a broker says where its replicas lie (cluster/quorum_controller/directories.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(AssignReplicasToDirsRequest, entries=WIDE_ENTRIES, is_paced=True, needs=(CLUSTER_ACTION,))


async def handle(
    broker: Broker, request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).controller.assign_replicas(request)
