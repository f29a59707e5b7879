"""ApiVersions: what this broker speaks. The first request on every connection, answered before anybody said who he is.

3 and later carry the client's software name and version, which must look like one. Produce is advertised from 0 on,
although only 3 and later are served: librdkafka before 2.11.1 sends batches uncompressed otherwise (KAFKA-18659).
Features with a minimum of 0 are left out below version 4, because older Java clients fail on them (KAFKA-17011).
What is passed on to the active controller is advertised as far as that speaks it, too: it may be older, or Apache's.
The answer is the same for everybody until the metadata changes, so it is made and written once (`_answer`, `codec`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import ENTRIES, Decode, Encode, Served
from ottla.cluster.features import finalized_features, supported_features
from ottla.cluster.model import FeatureRange
from ottla.errors import InvalidRequest, UnsupportedVersion
from ottla.protocol.api import APIS
from ottla.protocol.compiled import decoder, encoder
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.protocol.schema import Buffer, Versions

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
Limits: TypeAlias = tuple[tuple[int, Versions | None], ...]
"""By the keys of APIs, the versions that somebody else must speak, too; None where he does not know the API."""
NONE: Final = Versions(1, 0)
SOFTWARE_SINCE = 3
ZERO_FEATURES_SINCE = 4


def codec(version: int) -> tuple[Decode, Encode]:
    """What was written last is kept, for as long as the same answer is given."""
    write = encoder(ApiVersionsResponse, version)
    response: object = None
    parts: list[Buffer] = []

    def encode(asked: ApiVersionsResponse) -> list[Buffer]:
        nonlocal response, parts
        if asked is not response:
            response, parts = asked, write(asked)
        return parts.copy()

    return partial(decoder(ApiVersionsRequest, version), left=ENTRIES), encode


def throttled(version: int) -> Callable[[ApiVersionsResponse, int], list[Buffer]]:
    """The answer to who has to wait is another one; `_answer` keeps that without a time."""

    def encode(response: ApiVersionsResponse, wait_ms: int) -> list[Buffer]:
        slowed = copy(response)
        slowed.throttle_time_ms = wait_ms
        return encoder(ApiVersionsResponse, version)(slowed)

    return encode


SERVES = Served(ApiVersionsRequest, codec=codec, throttled=throttled)


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_SINCE:
        names = request.client_software_name, request.client_software_version
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=InvalidRequest.code, api_keys=[])
        if context.connection is not None:
            context.connection.client_software = names
    finalized = tuple(sorted(finalized_features(broker.image).items()))
    has_zero_features = context.api_version >= ZERO_FEATURES_SINCE
    known = supported_features(broker.image)
    supported = tuple(feature for feature in known if feature.min_level > 0 or has_zero_features)
    return _answer(broker.served_apis, _limits(broker), supported, broker.image.change_number, finalized)


def _limits(broker: Broker) -> Limits:
    spoken = broker.link.passed_on_versions
    return () if spoken is None else tuple((key, spoken.ranges.get(key)) for key in sorted(broker.link.passed_on))


@lru_cache(maxsize=8)
def _answer(
    keys: frozenset[int],
    limits: Limits,
    supported: tuple[FeatureRange, ...],
    epoch: int,
    finalized: tuple[tuple[str, int], ...],
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=0,
        api_keys=advertised(keys, limits),
        supported_features=[
            SupportedFeatureKey(name=feature.name, min_version=feature.min_level, max_version=feature.max_level)
            for feature in supported
        ],
        finalized_features_epoch=epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized
        ],
    )


@cache  # anybody may ask, as often as he likes; the answer is the same for as long as the broker runs
def advertised(keys: frozenset[int], limits: Limits) -> list[ApiVersion]:
    entries, spoken = [], dict(limits)
    for key in sorted(keys):
        versions = APIS[key].advertised
        lowest, highest = 0 if key == 0 else versions.min, versions.max
        if key in spoken:
            theirs = spoken[key] or NONE
            lowest, highest = max(lowest, theirs.min), min(highest, theirs.max)
        if lowest <= highest:
            entries.append(ApiVersion(api_key=key, min_version=lowest, max_version=highest))
    return entries


def refusal() -> ApiVersionsResponse:
    """To a version we do not know: error 35 and what we speak of this API itself, so that the client can ask again."""
    versions = APIS[18].advertised
    ours = ApiVersion(api_key=18, min_version=versions.min, max_version=versions.max)
    return ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[ours])
