"""UpdateFeatures: raise or lower finalized feature levels, all that are named or none (cluster/features.py).

What refuses one feature refuses the request: the error stands for the whole answer, with the feature in its message.
Versions 0 and 1 also tell every feature of an update that was made, from version 2 on there is only the one result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.cluster.forwarding import decided
from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.needs import Need
from ottla.cluster.features import update_features
from ottla.cluster.image import ClusterImage
from ottla.cluster.plan import Plan
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RESULTS_UNTIL = 1


ALTER_CLUSTER = Need(AclOperation.ALTER, AclResource.CLUSTER, is_forwarded=True)
SERVES = Served(UpdateFeaturesRequest, needs=(ALTER_CLUSTER,))


async def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    ALTER_CLUSTER.check(broker, context)
    return await decided(broker, request, context, decide)


async def decide(
    broker: Broker,
    request: UpdateFeaturesRequest,
    context: RequestContext,
    check_quorum: Callable[[int], None] | None = None,
) -> UpdateFeaturesResponse:
    version = context.api_version

    def make_plan(image: ClusterImage) -> Plan[UpdatableFeatureResult]:
        return update_features(image, request, version=version, check_quorum=check_quorum)

    try:
        plan = await broker.link.change(make_plan)
    except BrokerError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    return UpdateFeaturesResponse(error_code=NONE, results=plan.answers if version <= RESULTS_UNTIL else [])
