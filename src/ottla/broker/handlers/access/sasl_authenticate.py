"""SaslAuthenticate: an illegal state wherever it meets a handler, as SaslHandshake is (sasl_handshake.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.errors import IllegalSaslState
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(SaslAuthenticateRequest)


def handle(broker: Broker, request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    error = IllegalSaslState("a login was sent where none is open")
    return SaslAuthenticateResponse(error_code=error.code, error_message=str(error), auth_bytes=b"")
