"""DescribeAcls: the access rules that a filter matches, by resource (cluster/acls.py).

Versions 1 to 3. Every broker answers from the rules that it knows; where there are many, others are served meanwhile.
Without an authorizer it is SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.acls import describe_acls
from ottla.errors import NONE, SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MANY_RESOURCES: Final = 500
"""With rules of their own; looking at more takes longer than others should wait."""

DESCRIBE_CLUSTER = Need(AclOperation.DESCRIBE, AclResource.CLUSTER)
SERVES = Served(DescribeAclsRequest, needs=(DESCRIBE_CLUSTER,))


async def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    if not DESCRIBE_CLUSTER.is_met(broker, context):
        raise DESCRIBE_CLUSTER.refusal(context)
    if not broker.access.is_on:
        raise SecurityDisabled("no authorizer is configured on the broker")
    if len(broker.image.acls) <= MANY_RESOURCES:
        return DescribeAclsResponse(error_code=NONE, resources=describe_acls(broker.image, request))
    with broker.pacing.turn(context.connection) as pace:
        await pace.pause()
        resources = await broker.pacing.apart(describe_acls, broker.image, request)
        return DescribeAclsResponse(error_code=NONE, resources=resources)
