"""What a broker without delegation tokens answers to whoever asks about them.

Kafka refuses the question itself to clients that did not say who they are (a PLAINTEXT listener, or SSL without a
certificate), because a token stands for somebody; everybody else hears that tokens are switched off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.requests.context import RequestContext
from ottla.errors import BrokerError, DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

NO_TIME: Final = -1
ANONYMOUS: Final = "User:ANONYMOUS"


def token_refusal(broker: Broker, context: RequestContext) -> BrokerError:
    protocol = next((each.protocol for each in broker.settings.endpoints if each.name == context.listener), "PLAINTEXT")
    if protocol == "PLAINTEXT" or (protocol == "SSL" and context.principal == ANONYMOUS):
        return DelegationTokenRequestNotAllowed()
    return DelegationTokenAuthDisabled()


def split_principal(principal: str) -> tuple[str, str]:
    """Type and name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
