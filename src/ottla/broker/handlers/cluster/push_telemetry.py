"""PushTelemetry: the metrics of a client, as it was asked for them (broker/telemetry).

A request that is too large is read all the same, so that its client hears TELEMETRY_TOO_LARGE and is not cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import ANY_FRAME_BYTES, Served
from ottla.errors import NONE, BrokerError
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

SERVES = Served(PushTelemetryRequest, frame_bytes=ANY_FRAME_BYTES)


def handle(broker: Broker, request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    try:
        broker.telemetry.push(request, context)
    except BrokerError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse(error_code=NONE)
