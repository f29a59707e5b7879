"""UpdateFeatures: raise or lower finalized feature levels, all that are named or none (cluster/features.py).

What refuses one feature refuses the request: the error stands for the whole answer, with the feature in its message.
Versions 0 and 1 also tell every feature of an update that was made, from version 2 on there is only the one result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.effects import RequestContext
from ottla.broker.requests.answers import Later
from ottla.cluster.features import update_features
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

RESULTS_UNTIL = 1


def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> Later[Any]:
    version = context.api_version

    def answer(given: Any) -> UpdateFeaturesResponse:
        if isinstance(given, BrokerError):
            return UpdateFeaturesResponse(error_code=given.code, error_message=str(given))
        return UpdateFeaturesResponse(error_code=NONE, results=given.answers if version <= RESULTS_UNTIL else [])

    return broker.change(lambda image: update_features(image, request, version=version), answer)
