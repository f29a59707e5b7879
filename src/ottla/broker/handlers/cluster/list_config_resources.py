"""ListConfigResources: the names of resources that have settings (cluster/described.py).

Version 0 lists client metrics subscriptions only; from version 1 on topics, brokers, broker loggers, client metrics and
groups, all or those of the types asked for. A type that cannot be listed is UNSUPPORTED_VERSION for the whole answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.described import list_config_resources
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_CONFIGS = Need(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER)
SERVES = Served(ListConfigResourcesRequest, needs=(DESCRIBE_CONFIGS,))


def handle(broker: Broker, request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    try:
        DESCRIBE_CONFIGS.check(broker, context)
        found = list_config_resources(broker.image, list(request.resource_types), version=context.api_version)
    except BrokerError as error:
        return ListConfigResourcesResponse(error_code=error.code, config_resources=[])
    return ListConfigResourcesResponse(error_code=NONE, config_resources=found)
