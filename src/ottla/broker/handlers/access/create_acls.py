"""CreateAcls: add access rules; an answer per rule (cluster/acls.py).

Versions 1 to 3. Every broker writes them itself. Without an authorizer it is SECURITY_DISABLED for every rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.acls import create_acls
from ottla.errors import BrokerError, SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, Refused.ENTRY)
SERVES = Served(CreateAclsRequest, is_paced=True, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    if not ALTER_CLUSTER.is_met(broker, context):
        return _refusals(request, ALTER_CLUSTER.refusal(context))
    if not broker.access.is_on:
        return _refusals(request, SecurityDisabled("no authorizer is configured on the broker"))
    in_paths = not broker.link.is_alone
    try:
        plan = await broker.link.change(lambda image: create_acls(image, request.creations, in_paths=in_paths))
    except BrokerError as error:
        return _refusals(request, error)
    return CreateAclsResponse(results=plan.answers)


def _refusals(request: CreateAclsRequest, error: BrokerError) -> CreateAclsResponse:
    refusal = AclCreationResult(error_code=error.code, error_message=str(error))
    return CreateAclsResponse(results=[refusal] * len(request.creations))
