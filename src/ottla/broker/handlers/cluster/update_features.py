"""UpdateFeatures: raise or lower finalized feature levels, all that are named or none (cluster/features.py).

What refuses one feature refuses the request: the error stands for the whole answer, with the feature in its message.
Versions 0 and 1 also tell every feature of an update that was made, from version 2 on there is only the one result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.cluster.features import update_features
from ottla.errors import NONE, BrokerError
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RESULTS_UNTIL = 1


SERVES = Served(UpdateFeaturesRequest, is_forwarded=True, needs=(Need(AclOperation.ALTER, AclResource.CLUSTER),))


async def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    version = context.api_version
    try:
        plan = await broker.link.change(lambda image: update_features(image, request, version=version))
    except BrokerError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    return UpdateFeaturesResponse(error_code=NONE, results=plan.answers if version <= RESULTS_UNTIL else [])
