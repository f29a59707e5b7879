"""SaslHandshake: an illegal state wherever it meets a handler.

On a listener with login the handshake is the connection's own business and over before requests are handled. What comes
here is a client that logs in a second time, or on a listener where nobody has to; it must hear that and not a closed
connection, which it would take for a network fault and try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.errors import IllegalSaslState
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(SaslHandshakeRequest)


def handle(broker: Broker, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=IllegalSaslState.code, mechanisms=[])
