"""AlterPartition, on a controller: a leader proposes in-sync sets (cluster/quorum_controller/isr_changes.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.quorum.link import controller_link
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import WIDE_ENTRIES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(AlterPartitionRequest, entries=WIDE_ENTRIES, is_paced=True, needs=(CLUSTER_ACTION,))


async def handle(broker: Broker, request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    CLUSTER_ACTION.check(broker, context)
    return await controller_link(broker).controller.alter_partitions(request)
