"""DeleteAcls: take access rules away; an answer per filter, with the rules that are gone (cluster/acls.py).

Versions 1 to 3. Every broker writes it itself. Without an authorizer it is SECURITY_DISABLED for every filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.cluster.acls import delete_acls
from ottla.errors import BrokerError, ClusterAuthorizationFailed, SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(DeleteAclsRequest, is_paced=True, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),))


async def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    if not broker.access.allows(context, AclOperation.ALTER, AclResource.CLUSTER):
        return _refusals(request, ClusterAuthorizationFailed())
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
