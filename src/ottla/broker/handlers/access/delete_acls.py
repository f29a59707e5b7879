"""DeleteAcls: take access rules away; an answer per filter, with the rules that are gone (cluster/acls.py).

Versions 1 to 3. Every broker writes it itself. Without an authorizer it is SECURITY_DISABLED for every filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need, Refused
from ottla.cluster.acls import delete_acls
from ottla.errors import BrokerError, SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, Refused.ENTRY)
SERVES = Served(DeleteAclsRequest, is_paced=True, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    if not ALTER_CLUSTER.is_met(broker, context):
        return _refusals(request, ALTER_CLUSTER.refusal(context))
    if not broker.access.is_on:
        return _refusals(request, SecurityDisabled("no authorizer is configured on the broker"))
    try:
        plan = await broker.link.change(lambda image: delete_acls(image, request.filters))
    except BrokerError as error:
        return _refusals(request, error)
    return DeleteAclsResponse(filter_results=plan.answers)


def _refusals(request: DeleteAclsRequest, error: BrokerError) -> DeleteAclsResponse:
    refusal = DeleteAclsFilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
