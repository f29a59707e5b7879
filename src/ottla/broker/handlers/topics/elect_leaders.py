"""ElectLeaders: preferred leaders, or from version 1 on unclean ones (cluster/elections.py).

Null topics asks for all partitions, and then those that need no election are not told. What refuses the whole request
is told at every partition it names, and from version 1 on also for the whole answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.elections import elect_leaders
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

WHOLE_ERROR_SINCE = 1


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(ElectLeadersRequest, is_paced=True, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if not ALTER_CLUSTER.is_met(broker, context):
        return _refusal(request, ALTER_CLUSTER.refusal(context), context.api_version)
    return await decided(broker, request, context, _decide)


async def _decide(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    try:
        plan = await broker.link.change(lambda image: elect_leaders(image, request))
    except BrokerError as error:
        return _refusal(request, error, context.api_version)
    return ElectLeadersResponse(error_code=NONE, replica_election_results=plan.answers)


def _refusal(request: ElectLeadersRequest, error: BrokerError, version: int) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error.code, error_message=str(error))
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or []
    ]
    code = error.code if version >= WHOLE_ERROR_SINCE else NONE
    return ElectLeadersResponse(error_code=code, replica_election_results=results)
