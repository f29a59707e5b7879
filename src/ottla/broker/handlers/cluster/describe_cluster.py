"""DescribeCluster: id, controller and brokers of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.errors import MismatchedEndpointType
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


BROKERS = 1
NO_OPERATIONS = 0


DESCRIBE_CLUSTER = Need(
    AclOperation.DESCRIBE, AclResource.CLUSTER, Refused.LEFT_OUT, when="to be told the operations on the cluster"
)
SERVES = Served(DescribeClusterRequest, needs=(DESCRIBE_CLUSTER,))


def handle(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    image = broker.image
    if request.endpoint_type != BROKERS:
        error = MismatchedEndpointType("this is a broker, it has no controllers to tell")
        return DescribeClusterResponse(
            error_code=error.code, error_message=str(error), cluster_id=image.cluster_id, brokers=[]
        )
    answer = DescribeClusterResponse(
        error_code=0, cluster_id=image.cluster_id, controller_id=broker.link.controller_for_clients, brokers=[]
    )
    for one in image.brokers.values():
        endpoint = one.endpoint(context.listener)
        if endpoint is not None and (request.include_fenced_brokers or not one.fenced):
            described = DescribeClusterBroker(
                broker_id=one.id,
                host=endpoint.host,
                port=endpoint.port,
                rack=one.rack,
                is_fenced=one.fenced,
            )
            answer.brokers.append(described)
    if request.include_cluster_authorized_operations:
        may_describe = DESCRIBE_CLUSTER.is_met(broker, context)
        answer.cluster_authorized_operations = (
            broker.access.operations(context, AclResource.CLUSTER) if may_describe else NO_OPERATIONS
        )
    return answer
