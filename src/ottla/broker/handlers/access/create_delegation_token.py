"""CreateDelegationToken: refused, because this broker has no delegation tokens (security/token_requests.py).

As in Kafka the answer still names the owner the token would have had, and from version 3 on who asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Served
from ottla.broker.security.token_requests import NO_TIME, split_principal, token_refusal
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

REQUESTER_SINCE = 3


SERVES = Served(CreateDelegationTokenRequest)


def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = split_principal(context.principal)
    owner = requester
    if request.owner_principal_name:
        owner = request.owner_principal_type or "", request.owner_principal_name
    tells_requester = context.api_version >= REQUESTER_SINCE
    return CreateDelegationTokenResponse(
        error_code=token_refusal(broker, context).code,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0] if tells_requester else "",
        token_requester_principal_name=requester[1] if tells_requester else "",
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
        token_id="",
        hmac=b"",
    )
