"""RenewDelegationToken: refused in all versions, because this broker has no delegation tokens
(security/token_requests.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.token_requests import NO_TIME, token_refusal
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(RenewDelegationTokenRequest)


def handle(
    broker: Broker, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=token_refusal(broker, context).code, expiry_timestamp_ms=NO_TIME)
