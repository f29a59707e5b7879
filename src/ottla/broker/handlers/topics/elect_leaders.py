"""ElectLeaders: preferred leaders, or from version 1 on unclean ones (cluster/elections.py).

Null topics asks for all partitions, and then those that need no election are not told. What refuses the whole request
is told at every partition it names, and from version 1 on also for the whole answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
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


SERVES = Served(
    ElectLeadersRequest, is_forwarded=True, is_paced=True, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),)
)


async def handle(broker: Broker, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
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
