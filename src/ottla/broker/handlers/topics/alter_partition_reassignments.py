"""AlterPartitionReassignments: move partitions to other brokers, or stop a move (cluster/reassignments.py).

Version 1 can forbid that the number of replicas changes, and the answer repeats that wish. On a cluster of one broker
the only target is that broker, and it is reached at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(
    AlterPartitionReassignmentsRequest,
    is_forwarded=True,
    is_paced=True,
    needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),),
)


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    answer = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=NONE,
        error_message=None,
        responses=[],
    )
    try:
        plan = await broker.link.change(lambda image: alter_partition_reassignments(image, request))
    except BrokerError as error:
        answer.error_code, answer.error_message = error.code, str(error)
    else:
        answer.responses = plan.answers
    return answer
