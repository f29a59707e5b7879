"""ExpireDelegationToken: refused in all versions, because this broker has no delegation tokens
(security/token_requests.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.token_requests import NO_TIME, token_refusal
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(ExpireDelegationTokenRequest)


def handle(
    broker: Broker, request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=token_refusal(broker, context).code, expiry_timestamp_ms=NO_TIME)
