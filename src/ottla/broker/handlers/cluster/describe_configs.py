"""DescribeConfigs: settings with their sources, synonyms, types and documentation (cluster/described.py).

A resource that is named twice is described once. An answer holds at most SETTINGS_LIMIT settings, which is those of
eight thousand topics; resources after that are INVALID_REQUEST, and the client has to ask for fewer at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.config_needs import ConfigNeeds
from ottla.cluster.described import describe_resource
from ottla.errors import BrokerError, InvalidRequest
from ottla.protocol.access import AclOperation
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SETTINGS_LIMIT: Final = 250_000


NEEDS = ConfigNeeds(AclOperation.DESCRIBE_CONFIGS)
SERVES = Served(DescribeConfigsRequest, is_paced=True, needs=NEEDS.declared)


async def handle(broker: Broker, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    left = SETTINGS_LIMIT
    results: dict[tuple[int, str], DescribeConfigsResult] = {}
    with broker.pacing.turn(context.connection) as pace:
        for resource in request.resources:
            named = resource.resource_type, resource.resource_name
            if named not in results:
                found = _described(broker, resource, request, context)
                left -= len(found.configs)
                results[named] = found if left >= 0 else _one_too_many(resource)
            await pace.step()
    return DescribeConfigsResponse(results=list(results.values()))


def _described(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResult:
    if not NEEDS.is_met(broker, context, resource.resource_type, resource.resource_name):
        return _refused(resource, NEEDS.refusal(context, resource.resource_type))
    return describe_resource(broker.image, resource, request, broker.config_rules)


def _one_too_many(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    error = InvalidRequest(f"more than {SETTINGS_LIMIT} settings in one answer; ask for fewer resources at a time")
    return _refused(resource, error)


def _refused(resource: DescribeConfigsResource, error: BrokerError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
