"""DescribeClientQuotas: the quotas whose entities match a filter (cluster/quotas.py).

The same in versions 0 and 1. A filter that makes no sense is an error for the whole answer, with null entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.quotas import describe_client_quotas_plan
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


DESCRIBE_CONFIGS = Need(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER)
SERVES = Served(DescribeClientQuotasRequest, needs=(DESCRIBE_CONFIGS,))


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    try:
        DESCRIBE_CONFIGS.check(broker, context)
        entries = describe_client_quotas_plan(broker.image, request)
    except BrokerError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    return DescribeClientQuotasResponse(error_code=NONE, entries=entries)
