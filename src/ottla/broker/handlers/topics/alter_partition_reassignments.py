"""AlterPartitionReassignments: move partitions to other brokers, or stop a move (cluster/reassignments.py).

Version 1 can forbid that the number of replicas changes, and the answer repeats that wish. On a cluster of one broker
the only target is that broker, and it is reached at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.reassignments import alter_partition_reassignments
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(AlterPartitionReassignmentsRequest, is_paced=True, needs=(ALTER_CLUSTER,))


async def handle(
    broker: Broker, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    if not ALTER_CLUSTER.is_met(broker, context):
        return _refusal(request, ALTER_CLUSTER.refusal(context))
    return await decided(broker, request, context, _decide)


async def _decide(
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


def _refusal(request: AlterPartitionReassignmentsRequest, error: BrokerError) -> AlterPartitionReassignmentsResponse:
    """Told for the whole request and at every partition, as Kafka does."""
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=error.code, error_message=str(error)
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=str(error), responses=responses)
