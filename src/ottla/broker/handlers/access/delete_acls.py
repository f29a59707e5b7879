"""DeleteAcls: SECURITY_DISABLED for every filter: this broker checks no rights, like a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(DeleteAclsRequest, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),))


def handle(broker: Broker, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    error = SecurityDisabled("no authorizer is configured on the broker")
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
            for _ in request.filters
        ]
    )
