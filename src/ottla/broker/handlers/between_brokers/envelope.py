"""Envelope: a broker passes on a request for the schema registry to the leader of _schemas (registry/forwarding.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import LIST_FRAME_BYTES, Served
from ottla.broker.security.needs import CLUSTER_ACTION
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(EnvelopeRequest, needs=(CLUSTER_ACTION,), frame_bytes=LIST_FRAME_BYTES)


async def handle(broker: Broker, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    from ottla.broker.registry.forwarding import answer_envelope

    return await answer_envelope(broker, bytes(request.request_data))
