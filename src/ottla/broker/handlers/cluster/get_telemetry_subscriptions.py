"""GetTelemetrySubscriptions: which of its metrics a client is asked for, and how often (broker/telemetry).

Nobody needs a right for it: what a client is asked for is no secret of the cluster's. Sums are asked for as differences
since the last push, and compressed in any way that records are, the best first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.records.compression import Compression
from ottla.values import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ACCEPTED: Final = [Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY]
SERVES = Served(GetTelemetrySubscriptionsRequest)


def handle(
    broker: Broker, request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    telemetry = broker.telemetry
    try:
        instance_id, instance = telemetry.ask(request.client_instance_id, context)
    except BrokerError as error:
        return _refusal(error)
    wanted = instance.wanted
    return GetTelemetrySubscriptionsResponse(
        error_code=NONE,
        client_instance_id=instance_id,
        subscription_id=wanted.id,
        accepted_compression_types=[int(each) for each in ACCEPTED],
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=telemetry.limit_bytes(),
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )


def _refusal(error: BrokerError) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=error.code,
        client_instance_id=ZERO_UUID,
        subscription_id=0,
        accepted_compression_types=[],
        push_interval_ms=0,
        telemetry_max_bytes=0,
        delta_temporality=False,
        requested_metrics=[],
    )
