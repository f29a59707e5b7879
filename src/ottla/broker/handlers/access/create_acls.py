"""CreateAcls: SECURITY_DISABLED for every rule: this broker checks no rights, like a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(CreateAclsRequest, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),))


def handle(broker: Broker, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    error = SecurityDisabled("no authorizer is configured on the broker")
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=error.code, error_message=str(error)) for _ in request.creations]
    )
