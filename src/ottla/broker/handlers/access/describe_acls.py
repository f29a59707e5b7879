"""DescribeAcls: SECURITY_DISABLED in all versions: this broker checks no rights, like a Kafka without an authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.errors import SecurityDisabled
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(DescribeAclsRequest, needs=(Need(AclOperation.DESCRIBE, AclResource.CLUSTER),))


def handle(broker: Broker, request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    error = SecurityDisabled("no authorizer is configured on the broker")
    return DescribeAclsResponse(error_code=error.code, error_message=str(error), resources=[])
