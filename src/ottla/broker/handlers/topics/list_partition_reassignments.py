"""ListPartitionReassignments: the moves of partitions that are under way; null topics asks for all. Version 0 only.

In a cluster only the controller knows them: a member's view has no replicas that come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.reassignments import list_partition_reassignments
from ottla.errors import NONE, NotController
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(ListPartitionReassignmentsRequest, needs=(DESCRIBE_CLUSTER,))


async def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    DESCRIBE_CLUSTER.check(broker, context)
    return await decided(broker, request, context, _decide)


def _decide(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    image = broker.image
    if broker.member is not None:
        state = broker.member.role.state
        if state is None:
            return ListPartitionReassignmentsResponse(error_code=NotController.code, topics=[])
        image = state.image
    topics = list_partition_reassignments(image, request)
    return ListPartitionReassignmentsResponse(error_code=NONE, topics=topics)
