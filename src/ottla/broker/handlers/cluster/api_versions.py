"""ApiVersions: what this broker speaks. The first request on every connection, answered before anybody said who he is.

3 and later carry the client's software name and version, which must look like one. Produce is advertised from 0 on,
although only 3 and later are served: librdkafka before 2.11.1 sends batches uncompressed otherwise (KAFKA-18659).
Features with a minimum of 0 are left out below version 4, because older Java clients fail on them (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.cluster.features import finalized_features
from ottla.errors import InvalidRequest, UnsupportedVersion
from ottla.protocol.api import APIS
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_SINCE = 3
ZERO_FEATURES_SINCE = 4


SERVES = Served(ApiVersionsRequest)


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_SINCE:
        names = request.client_software_name, request.client_software_version
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
        if context.connection is not None:
            context.connection.client_software = names
    return ApiVersionsResponse(
        error_code=0,
        api_keys=advertised(broker.served_apis),
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
            for feature in broker.supported_features
            if feature.min_level > 0 or context.api_version >= ZERO_FEATURES_SINCE
        ],
        finalized_features_epoch=broker.image.change_number,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(finalized_features(broker.image).items())
        ],
    )


@cache  # anybody may ask, as often as he likes; the answer is the same for as long as the broker runs
def advertised(keys: frozenset[int]) -> list[ApiVersion]:
    found = []
    for key in sorted(keys):
        versions = APIS[key].advertised
        lowest = 0 if key == 0 else versions.min
        found.append(ApiVersion(api_key=key, min_version=lowest, max_version=versions.max))
    return found


def refusal() -> ApiVersionsResponse:
    """To a version we do not know: error 35 and what we speak of this API itself, so that the client can ask again."""
    versions = APIS[18].advertised
    ours = ApiVersion(api_key=18, min_version=versions.min, max_version=versions.max)
    return ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[ours])
