"""DescribeDelegationToken: refused in all versions, because this broker has no delegation tokens
(security/token_requests.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.requests.context import RequestContext
from ottla.broker.requests.served import Need, Served
from ottla.broker.security.token_requests import token_refusal
from ottla.protocol.access import AclOperation, AclResource
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


SERVES = Served(DescribeDelegationTokenRequest, needs=(Need(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN),))


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=token_refusal(broker, context).code, tokens=[])
