"""DescribeCluster, on a controller: id of the cluster and its controllers; who asks for brokers must ask a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.handlers.cluster.describe_cluster import DESCRIBE_CLUSTER, NO_OPERATIONS
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.errors import MismatchedEndpointType
from ottla.protocol.access import AclResource
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

CONTROLLERS: Final = 2
SERVES = Served(DescribeClusterRequest, needs=(DESCRIBE_CLUSTER,))


def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    image = broker.image
    if request.endpoint_type != CONTROLLERS:
        error = MismatchedEndpointType("this is a controller; ask a broker for brokers")
        return DescribeClusterResponse(
            error_code=error.code, error_message=str(error), cluster_id=image.cluster_id, brokers=[]
        )
    answer = DescribeClusterResponse(
        error_code=0,
        cluster_id=image.cluster_id,
        controller_id=broker.link.controller_for_clients,
        endpoint_type=CONTROLLERS,
        brokers=[],
    )
    for node in image.controllers.values():
        endpoint = next((each for each in node.endpoints if each.listener == context.listener), None)
        if endpoint is not None:
            answer.brokers.append(DescribeClusterBroker(broker_id=node.id, host=endpoint.host, port=endpoint.port))
    if request.include_cluster_authorized_operations:
        may_describe = DESCRIBE_CLUSTER.is_met(broker, context)
        answer.cluster_authorized_operations = (
            broker.access.operations(context, AclResource.CLUSTER) if may_describe else NO_OPERATIONS
        )
    return answer
