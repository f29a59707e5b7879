"""IncrementalAlterConfigs: set, remove, append to or subtract from single settings (cluster/configs.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.answers import Later
from ottla.broker.coordinators.effects import RequestContext
from ottla.cluster.configs import incremental_alter_configs_plan
from ottla.errors import BrokerError
from ottla.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def handle(broker: Broker, request: IncrementalAlterConfigsRequest, context: RequestContext) -> Later[Any]:
    def answer(given: Any) -> IncrementalAlterConfigsResponse:
        if isinstance(given, BrokerError):
            return IncrementalAlterConfigsResponse(responses=[_refused(one, given) for one in request.resources])
        broker.set_log_levels(given.log_levels)
        return IncrementalAlterConfigsResponse(responses=given.answers)

    return broker.change(lambda image: incremental_alter_configs_plan(image, request, broker.config_rules), answer)


def _refused(resource: AlterConfigsResource, error: BrokerError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=error.code,
        error_message=str(error),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
